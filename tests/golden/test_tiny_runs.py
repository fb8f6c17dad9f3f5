"""Twenty updates of one row for each paper: the loss curve to four digits, so that no change alters numbers unseen."""

import pytest
import torch

from torsor.experiments.catalogue import find
from torsor.training import TrainState, train

GOLDEN = {
    "diagonal": [
        *(1.9262, 1.6511, 1.4306, 1.6412, 1.5711, 1.6697, 1.6503, 1.7129, 1.8103, 1.6997),
        *(1.6663, 1.7156, 1.5937, 1.6974, 1.7059, 1.7315, 1.6893, 1.7214, 1.73, 1.6972),
    ],
    "conformal": [
        *(1.94, 1.6619, 1.4456, 1.6629, 1.5766, 1.6618, 1.6507, 1.7095, 1.8032, 1.6955),
        *(1.658, 1.7037, 1.5858, 1.6947, 1.702, 1.7221, 1.6827, 1.7088, 1.7214, 1.6912),
    ],
}


@pytest.mark.parametrize("transition", ["diagonal", "conformal"])
def test_twenty_updates_of_rotate_the_loop_give_the_recorded_losses(transition):
    torch.set_default_dtype(torch.float32)
    experiment = find("rotate-the-loop/s3")
    study = experiment.build(
        **experiment.arguments(transition=transition, width=16, heads=2, updates=20, batch=16, warmup=2, threshold=1.7)
    )
    records = train(TrainState(study.model, study.optimizer), study.task, study.plan, forward=study.step.forward)
    assert [round(record.loss, 4) for record in records] == pytest.approx(GOLDEN[transition], abs=2e-4)
