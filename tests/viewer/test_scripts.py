"""The modules of the viewer as one script."""

import re

import pytest

from precedes.pages import read
from precedes.viewer.page import MODULES, joined, script, skeleton
from tests.support.places import ROOT

SOURCES = ROOT / "src/precedes/viewer"


def test_all_modules_are_in_it():
    assert sorted([*MODULES, "watch.js"]) == sorted(path.name for path in SOURCES.glob("*.js"))
    text = script()
    assert re.search(r"^(import|export)\b", text, re.MULTILINE) is None
    for name in MODULES:
        assert f"// {name}\n" in text
        assert len(read("precedes.viewer", name).splitlines()) <= 400


def test_what_is_imported_is_exported_there():
    for name in [*MODULES, "watch.js"]:
        text = read("precedes.viewer", name)
        for names, other in re.findall(
            r'^import \{ ([^}]*) \} from "\./(.*)";$', text, re.MULTILINE
        ):
            for one in names.split(", "):
                exported = rf"^export (?:async )?(?:function\*?|class|const) {one}\b"
                assert re.search(exported, read("precedes.viewer", other), re.MULTILINE), (
                    name,
                    one,
                )
                assert len(re.findall(rf"\b{one}\b", text)) > 1, f"{name} does not use {one}"


def test_ids_that_scripts_ask_for_are_in_the_skeleton():
    asked = set(re.findall(r'(?:byId|getElementById|\bon|press)\("([a-z-]+)"', script()))
    assert len(asked) > 15
    missing = {name for name in asked if f'id="{name}"' not in skeleton()}
    assert missing == {"precedes-head"}


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"a.js": "const one = 1;\n", "b.js": "export function one() {}\n"}, "both declare one"),
        ({"a.js": 'import { x } from "./b.js";\n', "b.js": ""}, "does not stand before"),
        ({"a.js": "export default 1;\n"}, "in a form that cannot be joined"),
        ({"a.js": 'const end = "</script>";\n'}, "would end the script"),
    ],
)
def test_modules_that_cannot_be_joined(texts, reason):
    with pytest.raises(ValueError, match=reason):
        joined(texts)
