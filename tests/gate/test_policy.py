import math

import pytest

from dpcalc.errors import InputError
from dpcalc.gate.policy import NO_POLICY, Policy, effective_policy, parse_policy, strictest_limit
from dpcalc.gate.verdict import Limit


def test_a_table_of_pyproject():
    text = b"[tool.dpcalc.policy]\nmax_epsilon = 3.5\nmax_increase_pct = 10\nwarn_at_pct = 90\nrequire_budget = true\n"
    assert parse_policy(text, "sub/pyproject.toml") == Policy(
        max_epsilon=Limit(value=3.5, source="max_epsilon of pyproject.toml"),
        max_increase_pct=Limit(value=10.0, source="max_increase_pct of pyproject.toml"),
        warn_at_pct=90.0,
        require_budget=True,
    )


def test_a_file_of_its_own():
    found = parse_policy(b"strict = true\nmax_epsilon = 0\n", "org.toml")
    assert found == Policy(max_epsilon=Limit(value=0.0, source="max_epsilon of org.toml"), strict=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_epsilon = -1", "max_epsilon of p.toml: expected a finite number >= 0, got -1"),
        ("max_epsilon = nan", "max_epsilon of p.toml: expected a finite number"),
        ("max_epsilon = inf", "max_epsilon of p.toml: expected a finite number"),
        ("max_epsilon = true", "max_epsilon of p.toml: expected a finite number"),
        ('max_epsilon = "two"', "max_epsilon of p.toml: expected a finite number"),
        ("max_epsilon = [1]", "max_epsilon of p.toml: expected a finite number"),
        ("require_budget = 1", "require_budget of p.toml: expected true or false"),
        ("max_epsilom = 1", "p.toml: expected keys of a policy .*, got `max_epsilom`"),
        ("max_epsilon 1", "p.toml: expected TOML"),
        ("tool.dpcalc.policy = 1", r"expected a table \[tool.dpcalc.policy\]"),
        ("a." * 600 + "b = 1", "points"),
    ],
)
def test_what_is_no_policy(text, message):
    with pytest.raises(InputError, match=message):
        parse_policy(text.encode(), "p.toml")


def test_a_pyproject_that_was_named_states_one():
    with pytest.raises(InputError, match=r"expected a table \[tool.dpcalc.policy\], got none"):
        parse_policy(b"[project]\n", "pyproject.toml")


def test_the_stricter_of_two_is_as_strict_as_both():
    one = Policy(max_epsilon=Limit(value=2.0, source="a"), warn_at_pct=80.0, strict=True)
    other = Policy(
        max_epsilon=Limit(value=1.0, source="b"), max_increase_pct=Limit(value=5.0, source="b"), require_budget=True
    )
    both = Policy(
        max_epsilon=Limit(value=1.0, source="b"),
        max_increase_pct=Limit(value=5.0, source="b"),
        warn_at_pct=80.0,
        require_budget=True,
        strict=True,
    )
    assert one.combined_with(other) == other.combined_with(one) == both
    assert both.combined_with(NO_POLICY) == both


def test_a_limit_that_is_no_number_is_the_strictest():
    limits = [Limit(value=1.0, source="a"), None, Limit(value=math.nan, source="b")]
    assert strictest_limit(limits).source == strictest_limit(reversed(limits)).source == "b"
    assert strictest_limit([None]) is None


def test_the_nearest_pyproject_with_a_policy_holds(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.dpcalc.policy]\nmax_epsilon = 1\n", encoding="utf-8")
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    assert effective_policy(None, inner, "").max_epsilon.value == 1.0
    (inner / "pyproject.toml").write_text("[tool.dpcalc.policy]\nmax_epsilon = 2\n", encoding="utf-8")
    assert effective_policy(None, inner, "").max_epsilon.value == 2.0


def test_a_misspelt_policy_is_not_the_absence_of_one(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.dpcalc.polciy]\nmax_epsilon = 1\n", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"expected keys of \[tool.dpcalc\] \(configs, maps, policy, run\), got `polciy`"
    ):
        effective_policy(None, tmp_path, "")


def test_a_policy_that_was_named_is_there(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        effective_policy(str(tmp_path / "none.toml"), tmp_path, "")
