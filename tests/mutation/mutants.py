"""Ways to break the mathematics on purpose: each must be met by the tests that stand beside it, and die."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One wrong change.

    Args:
        file: under ``src/torsor``.
        right: a piece of it that stands there exactly once.
        wrong: what is put in its place.
        tests: what must notice, under ``tests``.
    """

    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.file}: {self.right.strip()}  ->  {self.wrong.strip()}"


def of(file: str, tests: str, *changes: tuple[str, str]) -> tuple[Mutant, ...]:
    return tuple(Mutant(file, right, wrong, tuple(tests.split())) for right, wrong in changes)


MAPS = "laws/test_map_laws.py"
TRANSITIONS = "laws/test_transition_laws.py claims"
RECURRENCE = "laws/test_recurrence_laws.py"
SCAN = "fast/test_linear_scan.py laws/test_linear_scan_laws.py"
GROUPS = "laws/test_group_laws.py laws/test_subgroup_laws.py"
MATRIX_GROUPS = "laws/test_matrix_group_laws.py"
DIAGNOSTICS = "laws/test_diagnostic_laws.py"
TASKS = "laws/test_task_laws.py test_scores.py"
TRAINING = "laws/test_training_laws.py"

MUTANTS = (
    *of(
        "maps/scaled_rotation.py",
        MAPS,
        ("replace(self, angle=-self.angle)", "replace(self, angle=self.angle)"),
        ("matrix[..., first, second] = cosine, -sine", "matrix[..., first, second] = cosine, sine"),
        ("self.scale * other.scale,", "self.scale + other.scale,"),
        ("self.angle + other.angle,", "self.angle - other.angle,"),
        ("angle=self.angle * exponent", "angle=self.angle"),
        ("scale=self.scale**exponent", "scale=self.scale"),
        ("cosine * first - sine * second", "cosine * first + sine * second"),
        ("first = plane + plane // half * half", "first = plane"),
        ("[upper, upper.conj()]", "[upper, upper]"),
        ("(self.groups, 2, -1)", "(1, 2, -1)"),
    ),
    *of(
        "maps/diagonal.py",
        MAPS,
        ("self.values * other.values", "self.values + other.values"),
        ("self.values**exponent", "self.values * exponent"),
    ),
    *of(
        "maps/householder.py",
        MAPS,
        (".triu(1) + half", ".triu(0) + half"),
        ("self.vectors.flip(-2))  #", "self.vectors)  #"),
        ("0.5, dtype=unit.dtype", "1.0, dtype=unit.dtype"),
        ("self.scale * other.scale)", "self.scale)"),
    ),
    *of(
        "maps/permutation.py",
        MAPS,
        ("Permutation(self._origins)", "Permutation(self.images)"),
        ("identity[self._origins]", "identity[self.images]"),
    ),
    *of(
        "maps/dense.py",
        f"{MAPS} fast/test_block_diagonal.py",
        ("matrix=self.matrix.mT)", "matrix=self.matrix)"),
        ("self.dense() @ other.dense()", "other.dense() @ self.dense()"),
        ("by_group @ blocks.mT", "by_group @ blocks"),
    ),
    *of(
        "transitions/contraction.py",
        TRANSITIONS,
        ("softplus(self.raw_timestep, threshold=40.0)", "self.raw_timestep.exp()"),
        ("self.log_rate.exp()", "softplus(self.log_rate)"),
        ("(-torch.expm1(-timestep)).log()", "torch.expm1(-timestep).abs()"),
    ),
    *of(
        "transitions/block_conformal.py",
        TRANSITIONS,
        ("(-timestep * self.contraction", "(timestep * self.contraction"),
        ("angle = timestep * self.frequency", "angle = self.frequency"),
    ),
    *of(
        "transitions/block_decay.py",
        TRANSITIONS,
        ("self._spread((-decay).exp())", "self._spread(1 - decay)"),
        ("repeat_interleave(self.dim // self.groups)", "repeat(self.dim // self.groups)"),
    ),
    *of(
        "transitions/hold.py",
        TRANSITIONS,
        ("torch.expm1(timestep * generator) / generator", "torch.expm1(timestep * generator) * timestep"),
    ),
    *of(
        "transitions/cayley.py",
        TRANSITIONS,
        ("solve(identity + skew, identity - skew)", "solve(identity + skew, identity - 2 * skew)"),
        ("spread / 2, seed", "spread, seed"),
    ),
    *of(
        "transitions/orthogonal_chart.py",
        TRANSITIONS,
        ("(-self.contraction.timestep() *", "(self.contraction.timestep() *"),
        (
            "Diagonal(self.contraction.timestep().repeat_interleave(self.width)",
            "Diagonal(self.contraction.rate().repeat_interleave(self.width)",
        ),
    ),
    *of("transitions/frequency.py", TRANSITIONS, ("self.base**-exponent", "self.base**exponent")),
    *of(
        "recurrence/linear_scan_passes.py",
        SCAN,
        ("torch.complex(angle.cos(), -angle.sin())", "torch.complex(angle.cos(), angle.sin())"),
        ("grad[:, -1] + grad_last", "grad[:, -1]"),
        ("first * received[:, 0] if", "received[:, 0] if"),
        ("(received[:, 0] * state.conj()).sum(0)", "(received[:, 0] * state).sum(0)"),
        ("states[:, start - 1 : end - 1].conj()", "states[:, start:end].conj()"),
        ("powers(multiplier, len(by))[-1]", "powers(multiplier, len(by))[0]"),
        ("(unit * product).real, (adjoint * product).imag", "(unit * product).real, (unit * product).imag"),
    ),
    *of(
        "recurrence/delta_rule.py",
        "laws/test_delta_rule_laws.py",
        (".tril(-1)", ".tril(-2)"),
        ("each_written - each_moved @ state", "each_written + each_moved @ state"),
        ("row_of <= torch.arange", "row_of < torch.arange"),
    ),
    *of(
        "recurrence/m2rnn.py",
        "fast/test_m2rnn.py laws/test_m2rnn_laws.py claims/test_m2rnn.py",
        ("gate * carried + (1 - gate) * proposed", "(1 - gate) * carried + gate * proposed"),
        ("key.unsqueeze(-1) * value.unsqueeze(-2))", "key.unsqueeze(-1) + value.unsqueeze(-2))"),
        ("torch.tanh(carried @ matrices", "torch.tanh(carried @ matrices.mT"),
        ('carried if clip_mode == "total" else free', "free"),
        ("clamp(-ctx.bound, ctx.bound)", "clamp(max=ctx.bound)"),
    ),
    *of(
        "groups/finite.py",
        GROUPS,
        ("_keys(rows[:, rows[x]])", "_keys(rows[x][rows])"),
        ("np.nonzero(self.table == self.identity)[1]", "np.arange(self.order)"),
    ),
    *of(
        "groups/subgroups.py",
        GROUPS,
        ('table[members].min(axis=0) if side == "right"', 'table[members].min(axis=0) if side == "left"'),
        ("if 2 * len(members) * len(representatives)", "if 3 * len(members) * len(representatives)"),
        ("table[table[inverses, g], everything]", "table[table[everything, g], everything]"),
        ("coset_index(table, subgroup, \"left\"), coset", "coset_index(table, subgroup, \"right\"), coset"),
    ),
    *of(
        "groups/families.py",
        f"{GROUPS} test_group_families.py",
        ("[-i % n for i in range(n)]", "[(1 - i) % (n - 1) for i in range(n - 1)] + [n - 1]"),
        ("(y, 2 * x % 3)", "(y, x)"),
        ("(y, (z + y) % p)", "(y, (z + 1) % p)"),
    ),
    *of(
        "groups/orthogonal.py",
        MATRIX_GROUPS,
        ("return (matrix - matrix.mT) / 2", "return (matrix + matrix.mT) / 2"),
        ("[coordinates, -coordinates, diagonal]", "[coordinates, coordinates, diagonal]"),
        ("triangle(self.dim, matrix.device)) / 2", "triangle(self.dim, matrix.device))"),
        ("sign = 1 - 2 * component", "sign = 1 - component"),
    ),
    *of(
        "groups/unitary.py",
        MATRIX_GROUPS,
        ("[imaginary, imaginary, rest]", "[imaginary, -imaginary, rest]"),
        ("return self.dim**2 - 1", "return self.dim**2"),
        ("[upper[..., 0], upper[..., 1], diagonal]", "[upper[..., 1], upper[..., 0], diagonal]"),
    ),
    *of(
        "groups/torus.py",
        MATRIX_GROUPS,
        ("return g.conj()", "return g"),
        ("(1 + tangent / 2) / (1 - tangent / 2)", "1 + tangent"),
        ("matrix.abs().square() - 1", "matrix.abs() - 1"),
    ),
    *of(
        "groups/skew_exponential.py",
        "fast/test_skew_exponential.py",
        ("e, e, e, beta=2,", "e, e, e, beta=1,"),
        ("beta=0.5, alpha=0.5)", "beta=0.5, alpha=1.0)"),
    ),
    *of(
        "diagnostics/toeplitz.py",
        DIAGNOSTICS,
        ("diagonal - diagonal.mean(-1, keepdim=True)", "diagonal - diagonal.mean(0, keepdim=True)"),
        ("range(1 - steps, steps)", "range(steps)"),
    ),
    *of("diagnostics/gram.py", DIAGNOSTICS, ("part = part / largest", "part = part")),
    *of(
        "tasks/word_problem.py",
        TASKS,
        ("self._next_state[state * len(self.letters) + letter]", "self._next_state[state + letter]"),
        ("[0, block, update, stream]", "[0, block, update, 0]"),
        ("np.full(letters.shape[1], self.group.identity)", "np.full(letters.shape[1], 1)"),
    ),
    *of(
        "tasks/scores.py",
        TASKS,
        ("correct.cumprod(dim=1).sum(dim=0)", "correct.sum(dim=0)"),
        ("trials = self.unbroken[-2]", "trials = self.unbroken[-1]"),
        ("1 + sum(self.unbroken) / self.words", "sum(self.unbroken) / self.words"),
    ),
    *of(
        "tasks/proportion.py",
        TASKS,
        ("tail, misses = (1 - level) / 2,", "tail, misses = 1 - level,"),
        ("betaincinv(self.hits, misses + 1, tail)", "betaincinv(self.hits, misses, tail)"),
    ),
    *of(
        "tasks/bits_per_character.py",
        "laws/test_bits_laws.py",
        ("/ self.characters / math.log(2)", "/ self.characters"),
        ("torch.arange(length) >= length - scored", "torch.arange(length) >= 0"),
        ("(position >= first[:, None]) &", "(position >= 0) &"),
    ),
    *of(
        "tasks/likelihood.py",
        "laws/test_perplexity_laws.py",
        ("chosen.argmax(dim=-1) == theirs", "chosen.argmin(dim=-1) == theirs"),
    ),
    *of(
        "training/schedule.py",
        TRAINING,
        ("(update + 1) / self.warmup", "update / self.warmup"),
        ("self.final + (1 - self.final) * remaining", "remaining"),
    ),
    *of(
        "training/curriculum.py",
        TRAINING,
        ("min(self.smoothing, 1 - 1 / count)", "self.smoothing"),
        ("mean < self.threshold and", "loss < self.threshold and"),
    ),
    *of(
        "training/optimizer.py",
        TRAINING,
        ("verdicts.get(parameter, True) and", "verdicts.get(parameter, True) or"),
        ("not 0 <= weight_decay < math.inf", "not 0 <= weight_decay"),
    ),
    *of(
        "generation/sampling.py",
        "laws/test_generation_laws.py",
        ("falling.cumsum(-1) - falling >= self.nucleus", "falling.cumsum(-1) >= self.nucleus"),
        ("/ self.temperature", "* self.temperature"),
        ("logits.argmax(-1)", "logits.argmin(-1)"),
    ),
    *of(
        "layers/cached_attention.py",
        "laws/test_sequence_layer_laws.py",
        (".tril(seen - length)", ".tril()"),
    ),
    *of(
        "layers/alibi.py",
        "laws",
        ("distance < 0, float", "distance <= 0, float"),
    ),
    *of(
        "layers/feedforward.py",
        "fast/test_fast_paths.py",
        ("down.mT, alpha=0.5, out=out[piece]", "down.mT, alpha=1.0, out=out[piece]"),
        ("square, alpha=0.5)", "square)"),
        ("grad_up.addmm_(inner.mT, x[piece])", "grad_up = torch.mm(inner.mT, x[piece])"),
        ("range(0, len(x), size)", "range(0, len(x) - size + 1, size)"),
    ),
    *of(
        "layers/norm.py",
        "laws/test_layer_laws.py fast",
        ("value=-1).mul_(inverse)", "value=1).mul_(inverse)"),
        ("square.div_(x.shape[-1])", "square.div_(x.shape[-1] - 1)"),
    ),
)  # fmt: skip
