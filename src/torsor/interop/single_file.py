"""The code of one kind of model in one file, from this package's own source: it needs torch and transformers."""

import ast
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

from torsor.interop.family import Family
from torsor.interop.renaming import is_for_checkers, renamed

ENTRY = "torsor.interop.hugging_face_model"
REGISTER = "torsor.interop.families"
KERNELS = "torsor.recurrence.kernels"  # says which kernels of other packages serve: none, in a file that stands alone
ALLOWED = {"torch", "transformers", "numpy", *sys.stdlib_module_names}
HEAD = '''"""{name}, written by torsor {version} from its own source: all its parts, and how transformers calls it."""

'''
SHAPES = '''

class _Shaped:
    """Shapes in signatures are read, not checked."""

    def __class_getitem__(cls, _):
        return Tensor


{names} = _Shaped
'''


def single_file(family: Family) -> str:
    """The source of a module that defines the model, its configuration and both wrappers.

    Every module of ours that is needed stands in it as it is, without its imports; a name that two of them
    give to different things is made longer in one.

    Args:
        family: of the model; no other is in the file.

    Raises:
        ValueError: when a module needs a package that transformers does not bring.
    """
    origin, _, constant = family.module.rpartition(".")
    only = f"from {origin} import {constant}\n\n\ndef family_named(name: str) -> Family:\n    return {constant}\n"
    only = f'"""The one family here."""\n\nfrom torsor.interop.family import Family\n{only}'
    none = [f"def {name}(*_, **__):\n    return False" for name in _defined(_tree(KERNELS))]
    bundle = _Bundle({REGISTER: only, KERNELS: "\n\n\n".join(['"""No kernels here."""', *none])})
    bundle.add(ENTRY)
    return bundle.text(family.name)


@final
class _Bundle:
    """Modules in an order in which each comes after those it needs.

    Args:
        replaced: source that stands in for a module's own.
    """

    def __init__(self, replaced: dict[str, str]) -> None:
        self._replaced = replaced
        self._sources: dict[str, str] = {}
        self._trees: dict[str, ast.Module] = {}
        self._order: list[str] = []

    def add(self, module: str) -> None:
        """Take a module and all that it needs."""
        if module in self._sources:
            return
        self._sources[module] = self._replaced.get(module) or _source(module)
        replaced = module in self._replaced
        self._trees[module] = tree = ast.parse(self._sources[module]) if replaced else _tree(module)
        late = []
        for node, at_import in _imports(tree):
            for name in node.names:
                if _is_ours(node):
                    origin = _origin(node, name.name)
                    if at_import:
                        self.add(origin)
                    elif not _strangers(_tree(origin)):
                        late.append(origin)  # what needs another package is a kernel, and none serves
        if strangers := _strangers(tree):
            raise ValueError(f"{module} needs {', '.join(strangers)}: a model of it cannot be self-contained")
        self._order.append(module)
        for origin in late:
            self.add(origin)

    def text(self, title: str) -> str:
        """All modules as one."""
        taken: dict[str, tuple[str, str]] = {}
        final_names: dict[tuple[str, str], str] = {}
        outside: dict[str, str] = {}
        shapes: set[str] = set()
        for module in self._order:
            for node, _ in _imports(self._trees[module]):
                for name in node.names:
                    if _package(node, name) == "jaxtyping":
                        shapes.add(name.name)
                    elif not _is_ours(node):
                        local = name.asname or name.name
                        origin = f"{node.module}" if isinstance(node, ast.ImportFrom) else ""
                        taken[local] = (origin, name.name)
                        outside[local] = ast.unparse(_alone(node, name))
        for module in self._order:
            for name in _defined(self._trees[module]):
                longer = f"{name}_of_{module.rpartition('.')[2]}"
                final_names[module, name] = name if taken.setdefault(name, (module, name))[0] == module else longer
        body = [self._body(module, final_names) for module in self._order]
        version = _version()
        head = HEAD.format(name=title[0].upper() + title[1:], version=version)
        outside.setdefault("Tensor", "from torch import Tensor")
        lines = sorted(outside.values(), key=lambda line: (line.startswith("from"), line))
        return head + "\n".join(lines) + "\n" + SHAPES.format(names=" = ".join(sorted(shapes))) + "".join(body)

    def _body(self, module: str, final_names: dict[tuple[str, str], str]) -> str:
        tree, source = self._trees[module], self._sources[module]
        names = {name: final_names[module, name] for name in _defined(tree)}
        for node, _ in _imports(tree):
            if _is_ours(node):
                for name in node.names:
                    origin = _origin(node, name.name)
                    if origin in self._sources:
                        names[name.asname or name.name] = final_names[origin, name.name]
        body = renamed(source, tree, names)
        said = (ast.get_docstring(tree) or "").partition("\n")[0]
        return f"\n\n# {module}: {said}\n\n{body.strip()}\n"


@cache
def _imports(tree: ast.Module) -> tuple[tuple[Any, bool], ...]:
    """Every import of a module, and whether it runs when the module is imported; not those for type checkers."""
    found: list[tuple[Any, bool]] = []
    waiting: list[tuple[ast.AST, bool]] = [(node, True) for node in tree.body]
    while waiting:
        node, at_import = waiting.pop(0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append((node, at_import))
        if isinstance(node, ast.stmt | ast.match_case | ast.ExceptHandler) and not is_for_checkers(node):
            inside = at_import and not isinstance(node, ast.FunctionDef)
            waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
    return tuple(found)


def _strangers(tree: ast.Module) -> list[str]:
    """The packages that a module needs and transformers does not bring."""
    known = ALLOWED | {"jaxtyping", "torsor"}
    needed = {_package(node, name) for node, at_import in _imports(tree) if at_import for name in node.names}
    return sorted(needed - known)


def _is_ours(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torsor"


def _package(node: ast.Import | ast.ImportFrom, name: ast.alias) -> str:
    module = node.module if isinstance(node, ast.ImportFrom) else name.name
    return (module or "").partition(".")[0]


def _alone(node: ast.Import | ast.ImportFrom, name: ast.alias) -> ast.stmt:
    if isinstance(node, ast.ImportFrom):
        return ast.ImportFrom(node.module, [name], node.level)
    return ast.Import([name])


def _defined(tree: ast.Module) -> list[str]:
    """The names that a module's own statements give, in order."""
    names = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    return list(dict.fromkeys(names))


def _origin(node: ast.ImportFrom, name: str) -> str:
    return _module_behind(node.module or "", name)


@cache
def _module_behind(module: str, name: str) -> str:
    """The module behind a name that is imported from a module or from a package's face."""
    path = _path(module)
    if path.name != "__init__.py":
        return module
    if path.with_name(f"{name}.py").exists():
        return f"{module}.{name}"
    face = path.with_suffix(".pyi") if path.with_suffix(".pyi").exists() else path
    for each in ast.parse(face.read_text(encoding="utf-8")).body:
        if isinstance(each, ast.ImportFrom) and name in {alias.asname or alias.name for alias in each.names}:
            return f"{module}.{each.module}" if each.level else f"{each.module}"
    raise ValueError(f"{module} must name {name} in its face")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_source(module))


@cache
def _source(module: str) -> str:
    return _path(module).read_text(encoding="utf-8")


@cache
def _path(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"there is no module {module}")
    return Path(spec.origin)


def _version() -> str:
    from torsor import __version__

    return __version__
