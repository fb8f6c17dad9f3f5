"""The statements of a module without its imports, and some of its global names exchanged for others."""

import ast
from collections.abc import Iterable, Mapping
from typing import final


def renamed(source: str, tree: ast.Module, names: Mapping[str, str]) -> str:
    """The source with every use of a global name exchanged; local names of functions and classes are left alone.

    Comments stay where they are. Imports and blocks for type checkers go; inside functions, ``pass`` stands for them.

    Args:
        source: of the module.
        tree: that it parses to.
        names: the new name of each global one.
    """
    edits = _Edits()
    changed = {old: new for old, new in names.items() if old != new}
    first = tree.body[0] if tree.body else None
    for node in tree.body:
        docstring = node is first and isinstance(node, ast.Expr)
        if docstring or _goes(node):
            edits.cut(node, "")
        else:
            _walk(node, frozenset(), changed, edits)
    return edits.applied(source)


@final
class _Edits:
    def __init__(self) -> None:
        self.spans: list[tuple[tuple[int, int], tuple[int, int], str]] = []

    def cut(self, node: ast.stmt, text: str) -> None:
        end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
        self.spans.append(((node.lineno, node.col_offset), end, text))

    def name(self, line: int, column: int, old: str, new: str) -> None:
        self.spans.append(((line, column), (line, column + len(old.encode())), new))

    def applied(self, source: str) -> str:
        lines = [line.encode() for line in source.splitlines(keepends=True)]
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        content = b"".join(lines)
        for start, end, text in sorted(self.spans, reverse=True):
            first, last = (starts[line - 1] + column for line, column in (start, end))
            content = content[:first] + text.encode() + content[last:]
        return content.decode()


def is_for_checkers(node: ast.AST) -> bool:
    """Whether it is a block that only type checkers read."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _goes(node: ast.AST) -> bool:
    return is_for_checkers(node) or isinstance(node, ast.Import | ast.ImportFrom)


def _walk(node: ast.AST, hidden: frozenset[str], names: Mapping[str, str], edits: _Edits) -> None:
    """Note the edits inside one node; ``hidden`` are names that mean something else there."""
    if not names and not isinstance(node, ast.stmt | ast.match_case | ast.ExceptHandler):
        return  # nothing is renamed, and an import is a statement
    match node:
        case ast.Import() | ast.ImportFrom():
            edits.cut(node, "pass")
            return
        case ast.Name() if node.id in names and node.id not in hidden:
            edits.name(node.lineno, node.col_offset, node.id, names[node.id])
        case ast.FunctionDef() | ast.ClassDef() if node.name in names and not hidden and node.col_offset == 0:
            word = "def " if isinstance(node, ast.FunctionDef) else "class "
            edits.name(node.lineno, node.col_offset + len(word), node.name, names[node.name])
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        arguments = node.args
        outside = _around(node) if isinstance(node, ast.FunctionDef) else []
        outside += [*arguments.defaults, *(each for each in arguments.kw_defaults if each)]
        listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        listed += [each for each in (arguments.vararg, arguments.kwarg) if each]
        outside += [each.annotation for each in listed if each.annotation]
        body = node.body if isinstance(node.body, list) else [node.body]
        _walk_all(outside, hidden, names, edits)
        _walk_all(body, hidden | {each.arg for each in listed} | _bound(body), names, edits)
    elif isinstance(node, ast.ClassDef):
        _walk_all([*node.decorator_list, *node.bases, *(each.value for each in node.keywords)], hidden, names, edits)
        own = _bound(node.body)
        for each in node.body:
            method = isinstance(each, ast.FunctionDef)
            _walk(each, hidden if method else hidden | own, names, edits)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        _walk_all(ast.iter_child_nodes(node), hidden | _bound(node.generators), names, edits)
    else:
        _walk_all(ast.iter_child_nodes(node), hidden, names, edits)


def _around(node: ast.FunctionDef) -> list[ast.expr]:
    return [*node.decorator_list, *([node.returns] if node.returns else [])]


def _walk_all(nodes: Iterable[ast.AST], hidden: frozenset[str], names: Mapping[str, str], edits: _Edits) -> None:
    for node in nodes:
        _walk(node, hidden, names, edits)


def _bound(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names that statements bind in their own scope: targets, loops, definitions; not those of inner scopes."""
    found: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        waiting += ast.iter_child_nodes(node)
    return frozenset(found)
