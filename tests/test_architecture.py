"""The house rules that a machine can check: who may import whom, and how every file is written."""

import ast
import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "torsor"

LEARNING = {"groups", "maps", "recurrence", "transitions", "diagnostics", "layers", "models", "tasks", "training"}
EVERYWHERE = {"kinds", "tensors", "derivatives"}  # what any file may ask: three files that are rooms by themselves
ALLOWED = {
    "kinds": set(),
    "tensors": set(),
    "derivatives": set(),
    # what needs no torch and is said everywhere
    "advice": set(),
    # what the mathematics stands on
    "groups": set(),
    "maps": set(),
    "recurrence": {"maps"},
    "transitions": {"maps", "groups"},
    "diagnostics": {"maps", "groups"},
    # what learns
    "layers": {"groups", "transitions", "recurrence", "maps"},
    "models": {"groups", "layers", "transitions", "recurrence"},
    "tasks": {"groups"},
    "training": {"tasks", "advice"},
    # what chooses
    "experiments": LEARNING | {"text", "generation", "tracking", "advice"},
    # the later rooms
    "tracking": {"groups", "tasks", "recurrence", "diagnostics"},
    "text": set(),
    "generation": {"models", "layers"},
    "interop": {"models", "layers", "transitions", "groups", "generation", "text"},
    "report": {"diagnostics", "maps", "advice"},
    "bench": LEARNING | {"experiments", "tracking", "text", "generation", "interop", "report"},
    # the roof
    "cli": {"experiments", "report", "bench", "tracking", "text", "generation", "interop", "advice"},
    "__main__": {"cli"},
}


def name_of(file: Path) -> str:
    parts = file.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """The folder of a module of ours, or a file that is a room by itself; None for the package and for strangers."""
    parts = module.split(".")
    return parts[1] if parts[0] == "torsor" and len(parts) > 1 else None


FILES = {name_of(file): file for file in sorted(SOURCE.rglob("*.py"))}
MODULES = {name: file for name, file in FILES.items() if file.name != "__init__.py"}
FACES = sorted(file.parent for file in SOURCE.rglob("__init__.pyi"))
every_file = pytest.mark.parametrize("name", FILES)
every_module = pytest.mark.parametrize("name", MODULES)


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imports_in(nodes, module: str):
    """Each imported name of ours as (module, name or None, line), with relative imports made absolute."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, None, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[: -node.level] if node.level else []
            origin = ".".join([*package, *([node.module] if node.module else [])])
            yield from ((origin, alias.name, node.lineno) for alias in node.names)


def rooms_imported(module: str, file: Path):
    for origin, name, line in imports_in(ast.walk(tree_of(file)), module):
        if origin == "torsor" and name is not None:  # "from torsor import maps"; a version is no room
            if name in ALLOWED:
                yield name, line
        elif room_of(origin) is not None:
            yield room_of(origin), line


def run_at_import(tree: ast.Module):
    """The statements that run when the module is imported."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
            continue
        yield node
        waiting += ast.iter_child_nodes(node)


@cache
def face_of(package: str) -> dict[str, str]:
    """Which module each name of a package's face comes from."""
    face = SOURCE.parent.joinpath(*package.split("."), "__init__.pyi")
    if not face.exists():
        face = face.with_suffix(".py")
    nodes = ast.walk(tree_of(face)) if face.exists() else []
    return {name: origin for origin, name, _ in imports_in(nodes, f"{package}.__init__") if name}


def module_behind(origin: str, name: str | None) -> str | None:
    """The file of ours that an import reads."""
    for candidate in (f"{origin}.{name}", origin, face_of(origin).get(name or "")):
        if candidate in MODULES:
            return candidate
    return None


@every_module
def test_imports_go_where_the_table_allows(name):
    room = room_of(name)
    assert room in ALLOWED, f"{name} lies in a room that the table of imports does not know"
    upwards = {
        (to, line) for to, line in rooms_imported(name, MODULES[name]) if to not in ALLOWED[room] | {room} | EVERYWHERE
    }
    assert not upwards, f"{name} must import only from {sorted(ALLOWED[room]) or 'nothing of ours'}, imports {upwards}"


def test_no_file_imports_itself_through_others():
    graph = {
        name: {module_behind(origin, what) for origin, what, _ in imports_in(run_at_import(tree_of(file)), name)}
        for name, file in MODULES.items()
    }
    remaining = {name: found - {None, name} for name, found in graph.items()}
    while leaves := {name for name, found in remaining.items() if not found}:
        remaining = {name: found - leaves for name, found in remaining.items() if name not in leaves}
    assert not remaining, f"these files lie on a circle of imports, or import one: {remaining}"


@every_file
def test_a_module_says_what_it_holds_in_one_line(name):
    text = ast.get_docstring(tree_of(FILES[name]), clean=False)
    assert text, f"{name} has no docstring"
    assert "\n" not in text, f"the docstring of {name} has more than one line"


@every_module
def test_a_file_is_not_longer_than_300_lines(name):
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) <= 300


@every_module
def test_a_class_is_abstract_or_final(name):
    for node in ast.walk(tree_of(MODULES[name])):
        if isinstance(node, ast.ClassDef):
            assert is_abstract(node) or is_final(node), f"{name}.{node.name} is neither abstract nor marked @final"


def last_word(node: ast.expr) -> str:
    while not isinstance(node, ast.Name | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value  # Final(...) or Protocol[...]
    return node.id if isinstance(node, ast.Name) else node.attr


def is_abstract(node: ast.ClassDef) -> bool:
    bases = {last_word(base) for base in node.bases}
    shapes = {"ABC", "Protocol", "Enum", "StrEnum", "IntEnum", "TypedDict"}
    return bool(bases & shapes) or any(base.endswith(("Error", "Exception", "Warning")) for base in bases)


def is_final(node: ast.ClassDef) -> bool:
    return "final" in {last_word(decorator) for decorator in node.decorator_list}


@every_module
def test_no_final_class_is_subclassed_in_its_file(name):
    classes = {node.name: node for node in ast.walk(tree_of(MODULES[name])) if isinstance(node, ast.ClassDef)}
    for node in classes.values():
        closed = {
            last_word(base)
            for base in node.bases
            if is_final(classes.get(last_word(base), ast.parse("class A: 0").body[0]))
        }
        assert not closed, f"{name}.{node.name} subclasses {closed}"


@every_module
def test_no_file_reads_the_clock_on_the_wall(name):
    # it may be set back; durations come from perf_counter and monotonic
    walls = {"time_ns", "ctime", "localtime", "gmtime", "utcnow", "today", "st_mtime", "getmtime", "datetime"}
    for node in ast.walk(tree_of(MODULES[name])):
        read = node.attr if isinstance(node, ast.Attribute) else node.name if isinstance(node, ast.alias) else ""
        assert read not in walls, f"{name} reads {read}"
        if isinstance(node, ast.Attribute) and node.attr == "time":
            assert not (isinstance(node.value, ast.Name) and node.value.id == "time"), f"{name} reads time.time"


@every_file
def test_errors_are_raised_and_interfaces_declared(name):
    found = []
    for node in ast.walk(tree_of(FILES[name])):
        if isinstance(node, ast.Assert):
            found.append((node.lineno, "assert, which python -O strips"))
        elif isinstance(node, ast.ExceptHandler) and hides_errors(node):
            found.append((node.lineno, "a handler of every exception, which hides errors"))
        elif isinstance(node, ast.Name) and node.id == "hasattr":
            found.append((node.lineno, "hasattr, where the base class should declare"))
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
            found.append((node.lineno, "from __future__, under which shapes are not checked"))
    assert not found, f"{name}: {found}"


def hides_errors(node: ast.ExceptHandler) -> bool:
    caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    everything = any(one is None or last_word(one) in {"Exception", "BaseException"} for one in caught)
    last = node.body[-1]
    tidies_up = isinstance(last, ast.Raise) and last.exc is None  # and raises again what it caught
    return everything and not tidies_up


@pytest.mark.parametrize("face", FACES, ids=name_of)
def test_every_name_of_a_face_is_found_and_is_not_a_module(face):
    package = importlib.import_module(name_of(face))
    promised = face_of(name_of(face))
    assert promised
    for name in promised:
        assert not isinstance(getattr(package, name), ModuleType), f"{package.__name__}.{name} is a module"
        assert f"{package.__name__}.{name}" not in MODULES, f"a file has the name of {package.__name__}.{name}"
    assert set(promised) <= set(dir(package))


@pytest.mark.parametrize("module", [name for name in ("torsor", "torsor.cli") if name in FILES])
def test_the_package_and_its_command_line_start_without_torch(module):
    heavy = f"import sys, {module}; sys.exit(', '.join({{'torch', 'scipy', 'matplotlib'}} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# The checks above are checked here: each sees what it is made to see.


def parsed(text):
    return ast.parse(text)


@pytest.mark.parametrize(
    ("text", "room"),
    [
        ("from torsor.training import train", "training"),
        ("import torsor.models.parcae as p", "models"),
        ("from torsor import layers", "layers"),
        ("from ..experiments import run", "experiments"),
        ("def late():\n    from torsor.cli import main", "cli"),
    ],
)
def test_an_upward_import_is_seen_wherever_it_stands(text, room, monkeypatch):
    monkeypatch.setitem(globals(), "tree_of", lambda _: parsed(text))
    assert [to for to, _ in rooms_imported("torsor.maps.dense", SOURCE)] == [room]


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("class A: ...", False),
        ("class A(nn.Module): ...", False),
        ("@dataclass(frozen=True)\nclass A: ...", False),
        ("@final\n@dataclass(frozen=True)\nclass A: ...", True),
        ("@typing.final\nclass A(nn.Module): ...", True),
        ("class A(nn.Module, ABC): ...", True),
        ("class A(Protocol[T]): ...", True),
        ("class A(ValueError): ...", True),
    ],
)
def test_a_class_that_is_neither_abstract_nor_final_is_seen(text, accepted):
    node = parsed(text).body[0]
    assert (is_abstract(node) or is_final(node)) == accepted


@pytest.mark.parametrize(
    ("caught", "body", "hides"),
    [
        ("", "y", True),
        (" Exception", "y", True),
        (" (KeyError, BaseException)", "raise ValueError", True),
        (" KeyError", "y", False),
        (" BaseException", "y; raise", False),
    ],
)
def test_a_handler_that_hides_errors_is_seen(caught, body, hides):
    node = parsed(f"try:\n    x\nexcept{caught}:\n    {body}").body[0].handlers[0]
    assert hides_errors(node) == hides


def test_an_import_inside_a_function_makes_no_circle():
    tree = parsed("import a\ndef f():\n    import b\nif TYPE_CHECKING:\n    import c\nclass D:\n    import e")
    assert {origin for origin, _, _ in imports_in(run_at_import(tree), "torsor.x.y")} == {"a", "e"}
