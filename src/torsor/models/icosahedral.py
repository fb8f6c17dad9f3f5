"""A group model whose weights are set by hand so that its state on SO(3) holds the element of A5."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from torsor.groups import SpecialOrthogonal, icosahedral_rotations
from torsor.layers.mixing import LinearMixing
from torsor.layers.recurrent_move import move_by_drive
from torsor.models.group_rnn import GroupRNN


def icosahedral_tracker(letters: Sequence[int]) -> GroupRNN:
    r"""``GroupRNN`` on SO(3) with :math:`W = 0` and :math:`E_x = \log \rho(x)`: a tracker of A5 without training.

    :math:`\rho` is ``icosahedral_rotations``. The state is :math:`\rho(q_t)` up to rounding, which nothing
    corrects: the map that a letter applies is linear in the state, and a letter that gives the identity leaves an error
    where it is. Another prototype is 72 degrees away at least, and rounding errors in float32 add up like steps
    of a random walk, so that it holds for long and not for ever.

    Guarantees, each a test in ``tests/claims/test_icosahedron.py``:

    * it answers words of 1,024 letters in float32 rightly at every position;
    * its state stays within 1e-3 of the rotation that it stands for over these.

    Args:
        letters: the elements of ``alternating(5)`` that the tokens are, in order; the begin token comes after them.

    Raises:
        ValueError: when a letter is no element.

    Example:
        >>> logits, state = icosahedral_tracker(letters=(3, 7))(torch.tensor([[2, 0, 1]]))
        >>> logits.shape, state.shape
        (torch.Size([1, 3, 60]), torch.Size([1, 3, 3]))
    """
    rotations = icosahedral_rotations()
    if not letters or not all(0 <= letter < len(rotations) for letter in letters):
        raise ValueError(f"letters must be some of 0 .. {len(rotations) - 1}, got {tuple(letters)}")
    logarithms = _logarithms(rotations)
    group = SpecialOrthogonal(3)
    model = GroupRNN(group, len(letters) + 1, LinearMixing, classes=len(rotations), recurrence=move_by_drive)
    with torch.no_grad():
        for weight in model.mixing.parameters():
            weight.zero_()
        drives = group.to_coordinates(torch.from_numpy(logarithms[list(letters)]))
        model.drive.copy_(torch.cat([drives, drives.new_zeros(1, group.algebra_dim)]))
        model.readout.prototypes.raw.copy_(torch.from_numpy(logarithms))
        model.readout.bias.zero_()
    return model


def _logarithms(rotations: Float[np.ndarray, "count 3 3"]) -> Float[np.ndarray, "count 3 3"]:
    """Skew-symmetric matrices whose exponentials are these rotations, of angles up to a half-turn."""
    x, y, z = Rotation.from_matrix(rotations).as_rotvec().T
    zero = np.zeros_like(x)
    return np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=1).reshape(-1, 3, 3)
