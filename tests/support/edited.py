"""Copies of the package's own protocols with a few nodes of their syntax trees changed.

An edit is ``(where, old, new)``: the one place in the function ``where`` that has the structure
of ``old`` becomes ``new``. Both are Python code: expressions, or statements in a row. Names of
local variables stand for any local variables, the same for the same name; all other names and
constants stand for themselves, and ``...`` for anything: an expression, all other arguments,
any number of statements; in ``new``, for what each stands for in ``old``, in turn. Thus comments,
formatting and names of locals may change.

``where`` is a function, a ``Class.method`` or a class; "" is a module. A function's parameters may
be named there, ``f(state, here)``, for use in ``new``. A fourth string, ``given``, is code that
stands in the function too, and names other locals. An ``old`` of "" is the beginning of a function
or the end of a module, and a ``new`` of "" leaves ``old`` out.
"""

import ast
import builtins
import copy
import inspect
import itertools
import shutil
import textwrap

from precedes import sources

FOLDER = sources.PACKAGE / "protocols"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def protocol(directory, name, *edits, rename="edited", part=None):
    """A copy of a protocol, a file or a folder, with each edit made; returns its path.

    ``part`` names one of ``precedes.parts`` to copy too, to be edited like the rest.
    """
    source = FOLDER / name
    if part is None and not source.is_dir():
        path = directory / f"{rename}.py"
        shutil.copy(source.with_suffix(".py"), path)
    else:
        path = directory / rename
        path.mkdir()
        copy_module(source, path / "__init__.py", path)
    if part is not None:
        copy_module(sources.PACKAGE / "parts" / part, path / f"{part}.py", path / part)
        for file in path.glob("*.py"):
            text = file.read_text().replace(f"precedes.parts.{part}", f".{part}")
            text = text.replace(f"from precedes.parts import {part}\n", f"from . import {part}\n")
            file.write_text(text)
    change(path, *edits)
    return str(path)


def copy_module(source, file, folder):
    """Copy a module to a file, or to a folder if it is a package."""
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, folder, ignore=ignored, dirs_exist_ok=True)
    else:
        shutil.copy(source.with_suffix(".py"), file)


def change(path, *edits):
    """Make edits in a file, or in the files of a folder."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    trees = {file: ast.parse(file.read_text()) for file in files}
    for one in edits:
        file = mutate(trees, *one)
        file.write_text(ast.unparse(trees[file]))


def mutate(trees, where, old, new, given=""):
    """Make an edit in one of these modules, and return its key.

    An edit that finds no place, or two, is a mistake, and so is a new text that uses a local
    variable of the function silently on which one it is.
    """
    old_nodes, new_nodes = parse(old, new)
    found = [
        (key, scope, fixed, place, names)
        for key, tree in trees.items()
        for fixed in [fixed_names(tree)]
        for scope, known in scopes(tree, where)
        for place, names in places(scope, old_nodes, fixed, known)
        for names in ([names] if not given else bindings(scope, given, fixed, names))
    ]
    assert len(found) == 1, f"{where}: {old!r} stands in {len(found)} places"
    key, scope, fixed, (owner, field, start, stop), names = found[0]
    unknown = {n.id for one in new_nodes for n in ast.walk(one) if isinstance(n, ast.Name)}
    unknown -= fixed | set(names)
    named = unknown & local_names(scope)
    assert not named, f"{where}: {named} are local variables that nothing identifies"
    filled = Filled(names).visit(ast.Module(copy.deepcopy(new_nodes), [])).body
    value = getattr(owner, field)
    if isinstance(value, list):
        value[start:stop] = filled
        if not value and field == "body":
            value.append(ast.Pass())
    else:
        (filled,) = filled
        setattr(owner, field, filled)
    return key


def function(module, where, *edit):
    """A function or method of a module with an edit made, without its decorators."""
    tree = ast.parse(inspect.getsource(module))
    mutate({module: tree}, where, *edit)
    ((node, _),) = scopes(tree, where)
    node.decorator_list = []
    space = {}
    made = ast.fix_missing_locations(ast.Module([node], []))
    code = compile(made, f"<{where}>", "exec", 0, dont_inherit=True)
    exec(code, vars(module), space)
    return space[node.name]


def parse(*texts):
    """Nodes of each text: an expression if all are one, statements in a row otherwise."""
    parsed = [ast.parse(textwrap.dedent(text)).body for text in texts]
    if all(len(body) == 1 and isinstance(body[0], ast.Expr) for body in parsed):
        return [[body[0].value] for body in parsed]
    return parsed


def fixed_names(tree):
    """Names that stand for themselves in a module: its own and Python's."""
    bound = set(dir(builtins)) - {"_"}  # which doctests set
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update((name.asname or name.name).partition(".")[0] for name in node.names)
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            bound.add(node.name)
        else:
            bound |= stored_names(node)
    return bound


def stored_names(tree):
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def local_names(scope):
    """Parameters and variables of a function and of those inside."""
    if not isinstance(scope, FUNCTIONS):
        return set()
    return stored_names(scope) | {n.arg for n in ast.walk(scope) if isinstance(n, ast.arg)}


def scopes(tree, where):
    """The functions or classes of this name, each with the names of its parameters."""
    wanted, _, given = where.partition("(")
    if not wanted:
        yield tree, {}
    pending = [(tree, "")]
    while pending:
        node, above = pending.pop()
        for child in ast.iter_child_nodes(node):
            name = above
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                name = f"{above}.{child.name}"
                if f".{wanted}" == name[-len(wanted) - 1 :]:
                    given_names = [one.strip() for one in given.rstrip(")").split(",") if one]
                    parameters = [one.arg for one in child.args.args] if given_names else []
                    yield child, dict(zip(given_names, parameters, strict=False))
            if isinstance(child, ast.stmt):
                pending.append((child, name))


def places(scope, pattern, fixed, names):
    """Each place of a scope that a pattern matches, with the names of its local variables."""
    if not pattern:
        body = scope.body
        first = len(body) if isinstance(scope, ast.Module) else ast.get_docstring(scope) is not None
        yield (scope, "body", int(first), int(first)), names
        return
    if not isinstance(scope, FUNCTIONS):  # whose names are attributes, or a module's
        fixed = fixed | {n.id for p in pattern for n in ast.walk(p) if isinstance(n, ast.Name)}
    for owner in ast.walk(scope):
        for field, value in ast.iter_fields(owner):
            run = value if isinstance(value, list) else [value]
            for start in range(len(run)):
                for stop in range(start + 1, len(run) + 1):
                    bound = match_run(pattern, run[start:stop], fixed, names)
                    if bound is not None:
                        yield (owner, field, start, stop), bound


def bindings(scope, given, fixed, names):
    """The values of the names, for each place where the pattern matches."""
    return [bound for _, bound in places(scope, *parse(given), fixed, names)]


def is_anything(node):
    node = node.value if isinstance(node, ast.Expr) else node
    return isinstance(node, ast.Constant) and node.value is ...


def with_anything(names, nodes):
    """The names, and by its number what one more ``...`` stands for."""
    return {**names, sum(isinstance(name, int) for name in names): nodes}


def match_run(patterns, nodes, fixed, names):
    """The names with what these nodes add to them, or None if they do not match."""
    if not patterns:
        return None if nodes else names
    first, *rest = patterns
    if is_anything(first):
        matches = (
            match_run(rest, nodes[i:], fixed, with_anything(names, nodes[:i]))
            for i in range(len(nodes) + 1)
        )
        return next((bound for bound in matches if bound is not None), None)
    bound = match(first, nodes[0], fixed, names) if nodes else None
    return None if bound is None else match_run(rest, nodes[1:], fixed, bound)


def match(pattern, node, fixed, names):
    """The same for one node, or whatever a field of one may hold."""
    if isinstance(pattern, list):
        return match_run(pattern, node, fixed, names)
    if isinstance(pattern, ast.AST) and is_anything(pattern):
        return with_anything(names, [node])
    if type(pattern) is not type(node):
        return None
    if not isinstance(pattern, ast.AST):
        return names if pattern == node else None
    if isinstance(pattern, ast.Name) and pattern.id not in fixed:
        if node.id in fixed or names.get(pattern.id, node.id) != node.id:
            return None
        taken = pattern.id not in names and node.id in names.values()
        return None if taken else {**names, pattern.id: node.id}
    if isinstance(pattern, ast.Call) and any(map(is_anything, pattern.args)):
        named = {one.arg for one in pattern.keywords}  # all others are arguments like any
        others = [one for one in node.keywords if one.arg not in named]
        keywords = [one for one in node.keywords if one.arg in named]
        node = ast.Call(node.func, [*node.args, *others], keywords)
    for field in pattern._fields:
        if field not in ("ctx", "kind", "type_comment"):
            names = match(getattr(pattern, field), getattr(node, field), fixed, names)
            if names is None:
                return None
    return names


class Filled(ast.NodeTransformer):
    """New code with the names that its local variables have here, and what ``...`` stood for."""

    def __init__(self, names):
        self.names = names
        numbers = [number for number in names if isinstance(number, int)]
        self.anything = itertools.cycle(names[number] for number in numbers)

    def visit_Name(self, node):
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_Call(self, node):
        self.generic_visit(node)
        node.keywords += [one for one in node.args if isinstance(one, ast.keyword)]
        node.args = [one for one in node.args if not isinstance(one, ast.keyword)]
        return node

    def visit(self, node):
        if not is_anything(node):
            return super().visit(node)
        nodes = copy.deepcopy(next(self.anything))
        return nodes if isinstance(node, ast.Expr) or len(nodes) != 1 else nodes[0]
