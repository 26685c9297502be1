"""Every way to get a file wrong: code, line, column, what is said; and nothing else is said."""

import pytest

from tests.config.malformed_draws import BUILT, DRAWS, GROUPS, LIMITS
from tests.config.malformed_keys import KEYS
from tests.config.texts import errors, flat, marked, nested

YAML = [
    ("empty", "§", [("DPC100", "empty")]),
    ("only comments", "§# nothing here\n", [("DPC100", "empty")]),
    ("a list", "§- a\n- b\n", [("DPC102", "must be a mapping of keys, got a list")]),
    ("a word", "§hello\n", [("DPC102", "got the string 'hello'")]),
    ("toml", "§version = 1\n[data]\nexamples = 3\n", [("DPC102", "a config is YAML or JSON")]),
    ("two documents", flat({}) + "§---\nversion: 1\n", [("DPC100", "second document")]),
    ("tab indent", "version: 1\ndata:\n§\texamples: 3\n", [("DPC100", "a tab cannot indent")]),
    ("colon in a value", "name: a§: b\n", [("DPC100", "`:` is not expected")]),
    ("open quote", 'version: 1\nname: §"abc\n', [("DPC100", "quote is never closed")]),
    ("open brace", "version: 1\ndata: §{examples: 3\n", [("DPC100", "missing in the mapping that begins here")]),
    (
        "bad indentation",
        "version: 1\ndata:\n    examples: 3\n  §levels: []\n",
        [("DPC100", "indentation does not fit")],
    ),
    ("undefined alias", "version: 1\nname: §*base\n", [("DPC100", "alias has no anchor")]),
    ("anchor twice", "version: &a 1\nname: §&a x\n", [("DPC100", "anchor is defined twice")]),
    ("escape", 'version: 1\nname: "a\\§q"\n', [("DPC100", "unknown escape")]),
    ("escape beyond unicode", 'version: 1\n§name: "\\UFFFFFFFF"\n', [("DPC100", "cannot be read as YAML")]),
    ("at sign", "version: 1\nname: §@me\n", [("DPC100", "cannot begin with this character")]),
    ("directive", "%§&\n", [("DPC100", "`%` line is not understood")]),
    (
        "text after a document",
        '§"a" "b"\n'.replace("§", "", 1).replace(' "b"', ' §"b"'),
        [("DPC100", "document has ended")],
    ),
    ("python tag", flat({"name": "§!!python/object/apply:os.system id"}), [("DPC100", "tags are not allowed")]),
    ("float tag", flat({"training": "{steps: §!!int 100}"}), [("DPC100", "tags are not allowed")]),
    ("unknown tag handle", "version: §!e!x 1\n", [("DPC100", "tags are not allowed")]),
    ("escape sequence", "version: 1\nname: a§\x1b[31mred\n", [("DPC100", "U+001B")]),
    ("NUL", "version: 1\nname: a§\0b\n", [("DPC100", "U+0000")]),
    ("line separator", "version: 1\nname: a§\u2028b\n", [("DPC100", "U+2028")]),
    ("lone surrogate", "version: 1\nname: a§\ud800b\n", [("DPC100", "U+D800")]),
    ("list as key", flat({}) + "? §[a]\n: b\n", [("DPC102", "key must be a word")]),
    ("empty key", flat({}) + '§"": b\n', [("DPC102", "key must be a word")]),
    ("no key", flat({"mechanism": "{noise_multiplier: 1, §: b}"}), [("DPC100", "a key or a value is missing here")]),
    ("open list", "version: 1\ndata: [1,§", [("DPC100", "ends inside a list")]),
    ("duplicate", flat({"mechanism": "{noise_multiplier: 1, §noise_multiplier: 9}"}), [("DPC105", "first at line 4")]),
    ("duplicate top level", flat({}) + "§version: 1\n", [("DPC105", "duplicate key `version` (first at line 1)")]),
    ("merge of a word", flat({"mechanism": "{§<<: x, noise_multiplier: 1}"}), [("DPC102", "`<<` takes a mapping")]),
    ("alias of itself", flat({"x-a": "§&a [*a]"}), [("DPC111", "contains itself")]),
]
VALUES = [
    ("quoted number", flat({"privacy": "{adjacency: add-remove, delta: §'1e-5'}"}), [("DPC102", "remove the quotes")]),
    (
        "word for a number",
        flat({"training": "{steps: §1e4x}"}),
        [("DPC102", "must be a whole number, got the string '1e4x'")],
    ),
    ("octal", flat({"training": "{steps: §010}"}), [("DPC102", "YAML 1.1 reads this as octal; write 10")]),
    ("hexadecimal", flat({"training": "{steps: §0x1f}"}), [("DPC102", "write it in decimal: 31")]),
    ("sexagesimal", flat({"training": "{steps: §12:30}"}), [("DPC102", "got the string '12:30'")]),
    ("no fraction", flat({"sampling": "{scheme: poisson, rate: §0.5/256}"}), [("DPC102", "such as 1/97")]),
    ("fraction of nothing", flat({"sampling": "{scheme: poisson, rate: §1/0}"}), [("DPC102", "such as 1/97")]),
    ("large fraction", flat({"sampling": "{scheme: poisson, rate: §3/2}"}), [("DPC106", "")]),
    ("fraction of a step", flat({"training": "{epochs: §1/2}"}), [("DPC102", "write a decimal number")]),
    ("fraction of noise", flat({"mechanism": "{noise_multiplier: §11/10}"}), [("DPC102", "write a decimal number")]),
    ("thousands cut off", flat({"training": "{steps: 5,§000}"}), [("DPC102", "write 5_000")]),
    ("thousands of examples cut off", flat({"data": "{examples: 60,§000, x-a: 1}"}), [("DPC102", "write 60_000")]),
    ("k for thousands", flat({"training": "{steps: §5k}"}), [("DPC102", "write 5_000")]),
    ("M for millions", flat({"data": "{examples: §1.2M}"}), [("DPC102", "write 1_200_000")]),
    ("percent of a hundred", flat({"privacy": "{adjacency: add-remove, delta: §0.5%}"}), [("DPC102", "0.5% is 0.005")]),
    ("percent", flat({"sampling": "{scheme: poisson, rate: §0.01%}"}), [("DPC102", "0.01% is 0.0001")]),
    ("thousands", flat({"training": '{steps: §"10,000"}'}), [("DPC102", "write 10_000")]),
    ("double underscore", flat({"data": "{examples: §60__000}"}), [("DPC102", "'60__000'")]),
    ("yes", flat({"training": "{steps: §yes}"}), [("DPC102", "got the string 'yes'")]),
    ("true", flat({"training": "{steps: §true}"}), [("DPC102", "got `true`")]),
    ("half a step", flat({"training": "{steps: §1.5}"}), [("DPC102", "got the number 1.5")]),
    ("null", flat({"training": "{§steps: }"}), [("DPC102", "`training.steps` is empty")]),
    ("tilde", flat({"training": "{steps: §~}"}), [("DPC102", "`training.steps` is empty")]),
    ("null section", flat({}) + "§budget:\n", [("DPC102", "`budget` is empty")]),
    ("infinite", flat({"budget": "{epsilon: §.inf}"}), [("DPC106", "must be finite")]),
    ("not a number", flat({"budget": "{epsilon: §.nan}"}), [("DPC106", "must be finite")]),
    ("huge exponent", flat({"budget": "{epsilon: §1e999999999}"}), [("DPC106", "exponents")]),
    ("too many digits", flat({"budget": f"{{epsilon: §0.{'1' * 90}}}"}), [("DPC106", "at most 80 characters")]),
    (
        "list for a number",
        flat({}).replace("training: {steps: 100}", "training: {§steps: [1]}"),
        [("DPC102", "got a list")],
    ),
    (
        "word for a section",
        flat({"privacy": "§secret"}),
        [("DPC102", "`privacy` must be a mapping, got the string 'secret'")],
    ),
    ("word for sampling", flat({"sampling": "§poisson"}), [("DPC102", "must be a mapping such as {scheme: poisson")]),
    (
        "word for a draw",
        nested({"sampling": "{task: §fixed}"}),
        [("DPC102", "`sampling.task` must be a mapping such as")],
    ),
    (
        "list for sampling",
        flat({"sampling": None}) + "§sampling: [poisson]\n",
        [("DPC102", "`sampling` must be a mapping, got a list")],
    ),
    ("mapping for levels", flat({"data": "{§levels: {task: 3}}"}), [("DPC102", "`data.levels` must be a list")]),
    ("word for a phase", flat({"phases": "[§main]"}), [("DPC102", "`phases[0]` must be a mapping")]),
    ("word for phases", flat({"phases": "§main"}), [("DPC102", "`phases` must be a list of phases")]),
    ("version as text", flat({"version": "§'1'"}), [("DPC102", "`version` must be the number 1")]),
    ("number for a name", flat({"name": "§5"}), [("DPC102", "quote it to make it a text")]),
    (
        "number for a level",
        nested({"privacy": "{unit: §2, delta: 1e-6}"}),
        [("DPC102", "`privacy.unit` must be a text, got the number 2")],
    ),
    (
        "escape in a name",
        flat({"name": '§"a\\e[31mb"'}),
        [("DPC104", "printable characters, got the string 'a\\x1b[31mb'")],
    ),
    ("direction override", flat({"name": '§"a\u202eb"'}), [("DPC104", "'a\\u202eb'")]),
    (
        "dot in a level",
        flat({"data": "{levels: [{name: §a.b, count: 3}]}"}),
        [("DPC104", "got the string 'a.b'"), None],
    ),
    (
        "reserved level",
        flat({"data": "{levels: [{name: §batch, count: 3}]}"}),
        [("DPC104", "a name of your own"), None],
    ),
    (
        "adjacency synonym",
        flat({"privacy": "{adjacency: §substitute, delta: 1e-6}"}),
        [("DPC104", "dpcalc calls this `replace-one`")],
    ),
    (
        "adjacency",
        flat({"privacy": "{adjacency: §ad-remove, delta: 1e-6}"}),
        [("DPC104", "add-remove, replace-one or zero-out")],
    ),
    ("adjacency number", flat({"privacy": "{adjacency: §1, delta: 1e-6}"}), [("DPC102", "got the number 1")]),
    ("scheme spelling", flat({"sampling": "{scheme: §Poison, rate: 0.1}"}), [("DPC104", "did you mean `poisson`?")]),
    (
        "scheme number",
        flat({"sampling": "{scheme: §1, rate: 0.1}"}),
        [("DPC102", "`sampling.scheme` must be poisson, fixed, with-replacement, shuffle or all")],
    ),
    ("mechanism type", flat({"mechanism": "{type: §gausian, noise_multiplier: 1}"}), [("DPC104", "must be gaussian")]),
    ("method", flat({"accounting": "{method: §plq}"}), [("DPC104", "did you mean `pld`?")]),
]
RANGES = [
    (
        "no examples",
        flat({"data": "{examples: §0}"}),
        [("DPC106", "`data.examples` must be at least 1, got the number 0"), None],
    ),
    ("too many examples", flat({"data": "{examples: §1e16}"}), [("DPC106", "must be at most 1e+15")]),
    (
        "too many records",
        nested({"data": "{levels: [{name: task, count: 1e10}, {name: example, count: §1e10}]}"}),
        [("DPC106", "in all")],
    ),
    (
        "no levels",
        flat({"data": "{§levels: []}", "sampling": "{example: {scheme: all}}"}),
        [("DPC106", "1 to 16 levels, got 0")],
    ),
    ("negative steps", flat({"training": "{steps: §-1}"}), [("DPC106", "at least 0")]),
    ("endless steps", flat({"training": "{steps: §1e16}"}), [("DPC106", "at most 1e+15")]),
    ("endless epochs", flat({"training": "{epochs: §1e14}"}), [("DPC106", "more than 1e+15 steps")]),
    ("negative noise", flat({"mechanism": "{noise_multiplier: §-1}"}), [("DPC106", "0, or from 1e-6 to 1e9")]),
    ("absurd noise", flat({"mechanism": "{noise_multiplier: §1e10}"}), [("DPC106", "0, or from 1e-6 to 1e9")]),
    ("no clip norm", flat({"mechanism": "{noise_multiplier: 1, max_grad_norm: §0}"}), [("DPC106", "more than 0")]),
    ("rate above 1", flat({"sampling": "{scheme: poisson, rate: §1.01}"}), [("DPC106", "at most 1")]),
    ("rate 0", flat({"sampling": "{scheme: poisson, rate: §0}"}), [("DPC106", "more than 0")]),
    ("negative rate", flat({"sampling": "{scheme: poisson, rate: §-0.1}"}), [("DPC106", "more than 0")]),
    ("delta 0", flat({"privacy": "{adjacency: add-remove, delta: §0}"}), [("DPC106", "below 1")]),
    ("delta 1", flat({"privacy": "{adjacency: add-remove, delta: §1}"}), [("DPC106", "below 1")]),
    ("delta almost 1", flat({"privacy": f"{{adjacency: add-remove, delta: §0.{'9' * 40}}}"}), [("DPC106", "below 1")]),
    ("negative budget", flat({"budget": "{epsilon: §-2}"}), [("DPC106", "from 0")]),
    (
        "expected above count",
        flat({"sampling": "{scheme: poisson, expected: §60_001}"}),
        [("DPC106", "more than the count 60000")],
    ),
    (
        "batch above count",
        flat({"sampling": "{scheme: fixed}", "training": "{steps: 1, batch_size: §60_001}"}),
        [("DPC106", "`training.batch_size`")],
    ),
    (
        "size above count",
        nested({"sampling": "{task: {scheme: fixed, size: §201}}"}),
        [("DPC106", "more than the count 200 of level `task`")],
    ),
    ("size 0", flat({"sampling": "{scheme: fixed, size: §0}"}), [("DPC106", "`sampling.size` must be at least 1")]),
    ("no phases", flat({"§phases": "[]"}), [("DPC106", "1 to 1000 phases, got 0")]),
    (
        "group of none",
        flat({"privacy": "{adjacency: add-remove, delta: 1e-6, group_size: §0}"}),
        [("DPC106", "at least 1")],
    ),
]
MEANING = [
    ("steps and epochs", flat({"training": "{steps: 3, §epochs: 4}"}), [("DPC107", "`steps` and `epochs`")]),
    (
        "rate and expected",
        flat({"sampling": "{scheme: poisson, expected: 4, §rate: 0.1}"}),
        [("DPC107", "`rate` and `expected`")],
    ),
    (
        "batch and expected",
        flat({"training": "{steps: 3, §batch_size: 4}"}),
        [("DPC107", "`batch_size` and `expected`")],
    ),
    (
        "batch and size",
        flat({"sampling": "{scheme: fixed, size: 3}", "training": "{steps: 3, §batch_size: 4}"}),
        [("DPC107", "`batch_size` and `size`")],
    ),
    (
        "batch of all",
        flat({"sampling": "{scheme: all}", "training": "{steps: 3, §batch_size: 4}"}),
        [("DPC107", "does not go with scheme `all`")],
    ),
    ("size of poisson", flat({"sampling": "{scheme: poisson, §size: 3}"}), [("DPC107", "takes `rate` or `expected`")]),
    ("rate of fixed", flat({"sampling": "{scheme: fixed, §rate: 0.1}"}), [("DPC107", "takes `size`")]),
    ("size of all", flat({"sampling": "{scheme: all, §size: 3}"}), [("DPC107", "draws everything")]),
    (
        "examples and levels",
        flat({"data": "{levels: [{name: example, count: 3}], §examples: 4}", "sampling": "{scheme: all}"}),
        [("DPC107", "`examples` and `levels`")],
    ),
    (
        "one draw, two levels",
        nested({"sampling": None}) + "§sampling: {scheme: fixed, size: 3}\n",
        [("DPC107", "2 levels (task, example)")],
    ),
    (
        "a draw and a level",
        flat({"sampling": None}) + "§sampling: {scheme: poisson, rate: 0.1, example: {scheme: fixed, size: 3}}\n",
        [("DPC107", "names the level `example` as well")],
    ),
    (
        "a draw and a level in a phase",
        flat({"phases": "[{§sampling: {scheme: all, example: {scheme: fixed, size: 3}}}]"}),
        [("DPC107", "names the level `example` as well")],
    ),
    ("batch, two levels", nested({"training": "{steps: 3, §batch_size: 4}"}), [("DPC107", "`sampling.task`")]),
    ("unit", nested({"privacy": "{unit: §exampel, delta: 1e-6}"}), [("DPC108", "did you mean `example`?")]),
    ("batch as unit", flat({"privacy": "{unit: §batch, delta: 1e-6}"}), [("DPC108", "the levels are example")]),
    ("clip", nested({"mechanism": "{noise_multiplier: 1, clip: §tsk}"}), [("DPC108", "did you mean `task`?")]),
    (
        "sampling of a stranger",
        nested({"sampling": "{tasks: {scheme: all}}"}).replace("{tasks", "{§tasks"),
        [("DPC108", "did you mean `task`?")],
    ),
    (
        "level twice",
        nested(
            {
                "data": "{levels: [{name: task, count: 200}, {name: §task, count: 20}]}",
                "sampling": "{task: {scheme: all}}",
                "privacy": "{unit: task, delta: 1e-6}",
            }
        ),
        [("DPC105", "two levels are called `task`")],
    ),
    ("phase twice", flat({"phases": "[{name: a}, {name: §a}]"}), [("DPC105", "two phases are called `a`")]),
    (
        "privacy in a phase",
        flat({"phases": "[{§privacy: {delta: 1e-3}}]"}),
        [("DPC104", "`privacy` cannot change between phases")],
    ),
    ("unknown in a phase", flat({"phases": "[{§lr: 3}]"}), [("DPC101", "unknown key `lr` in `phases[0]`")]),
    (
        "phase without a length",
        flat({"training": None, "phases": "[{training: {steps: 3}}, §{name: b}]"}),
        [("DPC103", "`phases[1].training` is missing")],
    ),
    (
        "wrong at the top, overridden below",
        flat({"training": "{steps: §many}", "phases": "[{training: {steps: 3}}]"}),
        [("DPC102", "got the string 'many'")],
    ),
    (
        "inherited by two phases",
        flat({"training": "{steps: §many}", "phases": "[{name: a}, {name: b}]"}),
        [("DPC102", "got the string 'many'")],
    ),
]
MECHANISMS = [
    (
        "unknown key of laplace",
        flat({"mechanism": "{type: laplace, noise_multiplier: 2, §foo: 3}"}),
        [("DPC101", "foo")],
    ),
    (
        "key of another mechanism",
        flat({"mechanism": "{type: pure-dp, epsilon: 1, §rho: 3}"}),
        [("DPC107", "`rho` does not go with type `pure-dp`")],
    ),
    (
        "gaussian epsilon",
        flat({"mechanism": "{noise_multiplier: 1, §epsilon: 3}"}),
        [("DPC107", "`epsilon` does not go with type `gaussian`")],
    ),
    ("unknown mechanism", flat({"mechanism": "{type: §laplacian, scale: 3}"}), [("DPC104", "laplacian")]),
    ("laplace without noise", flat({"mechanism": "{type: laplace, noise_multiplier: §0}"}), [("DPC106", "0.001")]),
    (
        "missing parameter",
        flat({"mechanism": None, "§mechanism": "{type: zcdp, omega: 9}"}),
        [("DPC103", "`mechanism.rho`")],
    ),
    (
        "sum without noise",
        flat({"mechanism": "{noise_multiplier: 1, also: {noise_multiplier: §0}}"}),
        [("DPC106", "1e-6")],
    ),
    ("sum as a number", flat({"mechanism": "{noise_multiplier: 1, also: §20}"}), [("DPC102", "or a list of such")]),
    (
        "sum that is empty",
        flat({"mechanism": "{noise_multiplier: 1, §also: {}}"}),
        [("DPC103", "also.noise_multiplier")],
    ),
    (
        "sum with another key",
        flat({"mechanism": "{noise_multiplier: 1, also: [{§sigma: 3}, {noise_multiplier: §x}]}"}),
        [("DPC101", "calls this `noise_multiplier`"), ("DPC102", "mechanism.also[1].noise_multiplier")],
    ),
    (
        "sum beside other noise",
        flat({"mechanism": "{type: laplace, noise_multiplier: 1, §also: {noise_multiplier: 20}}"}),
        [("DPC107", "does not go with type `laplace`")],
    ),
    (
        "too many sums",
        flat({"mechanism": f"{{noise_multiplier: 1, §also: [{', '.join(['{noise_multiplier: 9}'] * 101)}]}}"}),
        [("DPC106", "at most 100 sums, got 101")],
    ),
    ("truncated too low", flat({"mechanism": "{type: zcdp, rho: 1, omega: §2}"}), [("DPC106", "above 2")]),
    (
        "always the truth",
        flat({"mechanism": "{type: randomized-response, truth_probability: §1}"}),
        [("DPC106", "below 1")],
    ),
    (
        "answers below chance",
        flat({"mechanism": "{type: randomized-response, truth_probability: §0.2, categories: 4}"}),
        [("DPC106", "at least 1 / 4")],
    ),
    (
        "answer of nobody",
        flat({"mechanism": None, "§mechanism": "{type: randomized-response, truth_probability: 0.75}"}),
        [("DPC104", "expected adjacency replace-one")],
    ),
]
VOTES = [
    (
        "drawn teachers",
        flat({"mechanism": None, "§mechanism": "{type: pate-lnmax, gamma: 0.1}"}),
        [("DPC104", "expected scheme all at every level with pate-lnmax, got poisson (example)")],
    ),
    (
        "votes of no kind",
        flat({"mechanism": "{type: pate-lnmax, gamma: 0.1, votes: §v.txt}"}),
        [("DPC110", "`mechanism.votes`: `v.txt` is no file *.npy, *.csv, *.tsv")],
    ),
    (
        "votes elsewhere",
        flat({"mechanism": "{type: pate-lnmax, gamma: 0.1, votes: §../../v.npy}"}),
        [("DPC110", "lies outside the repository")],
    ),
    (
        "votes as a list",
        flat({"mechanism": "{type: pate-gnmax, noise_multiplier: 40, §votes: [1, 2]}"}),
        [("DPC102", "the name of a file")],
    ),
    (
        "no gamma",
        flat({"mechanism": None, "§mechanism": "{type: pate-lnmax, votes: v.npy}"}),
        [("DPC103", "`mechanism.gamma` is missing")],
    ),
    (
        "a check without noise",
        flat({"mechanism": None, "§mechanism": "{type: pate-confident-gnmax, noise_multiplier: 40, threshold: 200}"}),
        [("DPC103", "`mechanism.threshold_noise_multiplier` is missing")],
    ),
    (
        "votes under gaussian noise",
        flat({"mechanism": "{noise_multiplier: 1, §votes: v.npy}"}),
        [("DPC107", "`votes`")],
    ),
]
NOT_YET = [
    ("version 2", flat({"version": "§2", "foo": "bar"}), [("DPC104", "version 2 of the config file")]),
    ("gdp", flat({"accounting": "{method: §gdp}"}), [("DPC104", "accounting method `gdp`")]),
    (
        "bare reference",
        flat({"training": "§{steps: ${train.steps}}"}),
        [("DPC100", "inside braces a reference needs quotes")],
    ),
    ("hydra marker", flat({"training": "\n  steps: §???"}), [("DPC110", "`training.steps` is `???`")]),
    ("bare hydra marker", flat({"training": "{steps: §???}"}), [("DPC100", "stands for one still to be given")]),
    ("hydra defaults", "§defaults: [base]\nlr: 3\n", [("DPC110", "`defaults`")]),
]
CASES = [*YAML, *KEYS, *VALUES, *RANGES, *MEANING, *DRAWS, *GROUPS, *LIMITS, *BUILT, *MECHANISMS, *VOTES, *NOT_YET]


def test_enough_cases_and_different_names():
    assert len(CASES) >= 60
    assert len({name for name, _, _ in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(text, expected, id=name) for name, text, expected in CASES]
)
def test_code_place_and_words(text, expected):
    clean, places = marked(text)
    found = errors(clean)
    wanted = [item for item in expected if item]
    assert [diagnostic.code for diagnostic in found][: len(wanted)] == [code for code, _ in wanted]
    assert [(diagnostic.line, diagnostic.column) for diagnostic in found][: len(wanted)] == places
    for diagnostic, (_, phrase) in zip(found, wanted, strict=False):
        assert phrase in f"{diagnostic.message} | {diagnostic.hint}"
    assert len(found) == len(wanted) or None in expected


def test_all_errors_at_once_in_the_order_of_the_file():
    text, places = marked(
        flat(
            {
                "data": "{examples: §-5}",
                "sampling": "{scheme: poisson, rate: §2}",
                "mechanism": "{noise_multiplier: §x, §l2_norm_clip: 1}",
                "privacy": "{adjacency: §none-at-all, delta: §'1e-5'}",
            }
        )
    )
    found = errors(text)
    assert [(diagnostic.line, diagnostic.column) for diagnostic in found] == places
    assert [diagnostic.code for diagnostic in found] == ["DPC106", "DPC106", "DPC102", "DPC101", "DPC104", "DPC102"]
