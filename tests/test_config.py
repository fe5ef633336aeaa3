"""Settings: their one default, their line of documentation, and the ways to change them."""

import ast
import inspect
from dataclasses import FrozenInstanceError, asdict, fields

import pytest

from aiayn import config
from aiayn.config import (
    BatchConfig,
    Config,
    DecodeConfig,
    ModelConfig,
    OptimConfig,
    TrainConfig,
    parse_interval,
    parse_keep,
)
from aiayn.config_file import (
    all_settings,
    apply_overrides,
    did_you_mean,
    differences,
    from_settings,
    read_yaml,
    to_yaml,
)
from aiayn.errors import UsageError, counted
from aiayn.presets import PRESETS

SECTIONS = (ModelConfig, BatchConfig, OptimConfig, TrainConfig, DecodeConfig)


@pytest.fixture
def refusal_of(tmp_path):
    """Return how reading a file with some text is refused."""

    def read(text: str) -> UsageError:
        path = tmp_path / "settings.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError) as refusal:
            read_yaml(path, Config())
        return refusal.value

    return read


@pytest.mark.parametrize("name", PRESETS)
def test_writing_and_reading_a_preset_gives_it_back(name, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(PRESETS[name]), encoding="utf-8")
    assert read_yaml(path, Config()) == PRESETS[name]
    # The file is complete: what lay below it shows through nowhere.
    assert read_yaml(path, PRESETS["parsing"]) == PRESETS[name]
    assert from_settings(asdict(PRESETS[name])) == PRESETS[name]


def test_a_written_file_has_the_order_of_the_source():
    lines = to_yaml(Config()).splitlines()
    assert lines[:4] == ["model:", "  layers: 6", "  decoder_layers: 0", "  d_model: 512"]


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path):
    path = tmp_path / "some.yaml"
    path.write_text("optim:\n  warmup: 8000\nmodel:\n  tie: target\n  attention_bias: false\n")
    assert differences(PRESETS["big"], read_yaml(path, PRESETS["big"])) == [
        "model.attention_bias: True -> False",
        "model.tie: all -> target",
        "optim.warmup: 4000 -> 8000",
    ]


@pytest.mark.parametrize("text", ["1e-9", "1.0e-9", "0.000000001", "'1e-9'"])
def test_a_small_number_is_read_as_a_number_however_it_is_written(text, tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(f"optim:\n  epsilon: {text}\n")
    epsilon = read_yaml(path, Config(optim=OptimConfig(epsilon=0.5))).optim.epsilon
    assert isinstance(epsilon, float)
    assert epsilon == 1e-9


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "model:\noptim:\n", "{}"])
def test_an_empty_file_or_section_changes_nothing(text, tmp_path):
    path = tmp_path / "empty.yaml"
    path.write_text(text)
    assert read_yaml(path, PRESETS["big"]) == PRESETS["big"]


def test_an_unknown_setting_names_file_line_and_the_nearest_name(refusal_of):
    refusal = refusal_of("model:\n  layers: 2\noptim:\n  # a comment\n  wramup: 8000\n")
    assert "settings.yaml, line 5: there is no setting optim.wramup" in refusal.message
    assert refusal.fix == "did you mean optim.warmup?"


def test_a_setting_that_is_there_twice_names_both_lines(refusal_of):
    refusal = refusal_of("optim:\n  warmup: 3\n  factor: 1\n  warmup: 4\n")
    assert "settings.yaml, line 4: warmup is set already, in line 2" in refusal.message


def test_a_setting_without_its_section_is_found():
    with pytest.raises(UsageError, match="'warmup=3' is not a setting") as problem:
        apply_overrides(Config(), ["warmup=3"])
    assert problem.value.fix.startswith("did you mean optim.warmup=3? Updates over which")


def test_a_setting_in_the_wrong_section_is_found_in_the_right_one(refusal_of):
    refusal = refusal_of("train:\n  warmup: 8000\n")
    assert "line 2: there is no setting train.warmup" in refusal.message
    assert refusal.fix == "did you mean optim.warmup?"


@pytest.mark.parametrize("inside", ["  layers: 2\n", ""])
def test_an_unknown_section_names_file_line_and_the_nearest_name(inside, refusal_of):
    refusal = refusal_of(f"optim:\n  warmup: 1\n\nmodle:\n{inside}")
    assert "settings.yaml, line 4: there is no section 'modle'" in refusal.message
    assert refusal.fix == "did you mean model?"


@pytest.mark.parametrize(
    ("section", "setting", "wanted"),
    [
        ("model", "layers: six", "a whole number"),
        ("model", "layers: 2.5", "a whole number"),
        ("model", "layers:", "a whole number"),
        ("model", "dropout: high", "a number"),
        ("model", "attention_bias: maybe", "true or false"),
        ("model", "positions: rotary", "sinusoidal or halves or learned"),
        ("train", "precision: float8", "auto or float32 or bfloat16 or float16"),
    ],
)
def test_a_value_of_the_wrong_type_says_what_is_wanted_and_where(
    section, setting, wanted, refusal_of
):
    refusal = refusal_of(f"{section}:\n  {setting}\n")
    assert f"line 2: {section}.{setting.split(':')[0]} is" in refusal.message
    assert f"expected {wanted}" in refusal.message
    assert refusal.exit_code == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [("- model\n", 1), ("model: 3\n", 1), ("\nmodel:\n  layers: [1, 2]\n", 3), ("text\n", 1)],
)
def test_a_file_of_another_shape_names_the_line(text, line, refusal_of):
    refusal = refusal_of(text)
    assert f"settings.yaml, line {line}: expected " in refusal.message


@pytest.mark.parametrize("text", ["model: [", "a: b: c", "\x00"])
def test_a_file_that_is_not_yaml_is_refused_by_its_name(text, refusal_of):
    assert "settings.yaml is not YAML: " in refusal_of(text).message


def test_a_file_that_is_not_there_or_not_a_file_is_refused_by_its_name(tmp_path):
    with pytest.raises(UsageError, match=r"none\.yaml does not exist"):
        read_yaml(tmp_path / "none.yaml", Config())
    with pytest.raises(UsageError, match="is not YAML"):
        read_yaml(tmp_path, Config())


def test_assignments_are_put_on_top_and_the_last_one_counts():
    assignments = [
        "model.layers=2",
        "optim.epsilon=1e-8",
        "train.compile=True",
        "model.layers=3",
    ]
    assert differences(Config(), apply_overrides(Config(), assignments)) == [
        "model.layers: 6 -> 3",
        "optim.epsilon: 1e-09 -> 1e-08",
        "train.compile: auto -> true",
    ]


def test_an_assignment_may_have_equals_signs_in_its_value():
    changed = apply_overrides(Config(), ["train.keep=last=3,best=2"])
    assert changed.train.keep == "last=3,best=2"


@pytest.mark.parametrize("text", ["warmpu=3", "optim=3", "a.b.c=3", ""])
def test_an_assignment_of_another_shape_shows_the_right_one(text):
    with pytest.raises(UsageError, match="is not a setting") as refusal:
        apply_overrides(Config(), [text])
    assert "section.key=value" in refusal.value.fix


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("optim.wramup=3", "did you mean optim.warmup?"),
        ("modle.layers=3", "did you mean model?"),
        ("model.layer=3", "did you mean model.layers?"),
        ("xyzzy.q=1", "choose from model, batch, optim, train, decode"),
        ("model.layers=six", "set model.layers to a whole number"),
    ],
)
def test_a_wrong_assignment_says_that_the_command_line_is_wrong_and_how_to_fix_it(text, fix):
    with pytest.raises(UsageError, match=r"^the command line: ") as refusal:
        apply_overrides(Config(), [text])
    assert refusal.value.fix == fix


@pytest.mark.parametrize(
    "assignment",
    [
        "model.layers=0",
        "model.d_k=0",
        "model.dropout=1",
        "model.dropout=-0.1",
        "model.attention_dropout=nan",
        "batch.tokens=0",
        "batch.jitter=1",
        "optim.warmup=0",
        "optim.factor=-1",
        "optim.factor=nan",
        "optim.factor=inf",
        "optim.beta2=1",
        "optim.smoothing=1",
        "train.steps=0",
        "train.average=0",
        "train.seed=-1",
        "train.seed=9223372036854775808",
        "decode.beam=0",
        "decode.alpha=-0.1",
        "decode.alpha=nan",
        "decode.alpha=10",
    ],
)
def test_a_number_out_of_range_is_refused_with_the_range(assignment):
    name, value = assignment.split("=")
    with pytest.raises(
        UsageError, match=f"^the command line: {name} is {value}.*, expected at least"
    ):
        apply_overrides(Config(), [assignment])


def test_a_number_out_of_range_names_file_and_line(refusal_of):
    refusal = refusal_of("model:\n  layers: 2\n  dropout: 1.5\n")
    assert refusal.message.endswith(
        "settings.yaml, line 3: model.dropout is 1.5, expected at least 0 and below 1"
    )
    assert refusal.fix == "set model.dropout to at least 0 and below 1"


@pytest.mark.parametrize(
    "assignment",
    ["model.dropout=0", "optim.smoothing=0", "train.valid_every=0", "decode.alpha=0"],
)
def test_zero_is_a_number_where_it_means_something(assignment):
    section, key = assignment.removesuffix("=0").split(".")
    changed = apply_overrides(Config(), [assignment])
    assert asdict(changed)[section][key] == 0


@pytest.mark.parametrize("order", [1, -1])
def test_settings_that_only_fit_together_may_come_in_any_order(order):
    assignments = ["model.d_model=511", "model.positions=learned"]
    changed = apply_overrides(Config(), assignments[::order])
    assert changed.model == ModelConfig(d_model=511, positions="learned")
    assert from_settings(asdict(changed)) == changed


@pytest.mark.parametrize(
    ("text", "interval"),
    [("1000", (1000, 0)), ("10m", (0, 600)), ("1h30m", (0, 5400)), ("45s", (0, 45))],
)
def test_an_interval_is_updates_or_time(text, interval):
    assert parse_interval(text) == interval


@pytest.mark.parametrize("text", ["", "0", "0m", "-5", "ten", "5x", "30m1h", "1.5h"])
def test_what_is_not_an_interval_is_refused(text):
    with pytest.raises(UsageError, match="is not an interval"):
        TrainConfig(save_every=text)


def test_what_to_keep_is_so_many_of_the_last_and_of_the_best():
    assert parse_keep("last=20,best=1") == (20, 1)
    assert parse_keep("last=3") == (3, 0)


@pytest.mark.parametrize("text", ["", "last=0", "best=1", "20", "last=2,best=x"])
def test_what_says_nothing_to_keep_is_refused(text):
    with pytest.raises(UsageError, match="does not say what to keep"):
        TrainConfig(keep=text)


def test_a_setting_cannot_be_changed_in_place():
    with pytest.raises(FrozenInstanceError):
        Config().model.layers = 3


def test_every_setting_is_known_by_its_section_and_key():
    assert len(all_settings()) == sum(len(fields(section)) for section in SECTIONS)
    assert "optim.warmup" in all_settings()


def test_an_alias_is_answered_with_the_name_it_stands_for():
    known = {"train": "train", "fit": "train", "score": "score"}
    assert did_you_mean("fitt", known) == "did you mean train?"
    assert did_you_mean("xyzzy", known) == "choose from train, score"


def test_there_are_at_most_49_settings():
    assert sum(len(fields(section)) for section in SECTIONS) <= 49
    assert {field.type for field in fields(Config)} == set(SECTIONS)


def test_every_setting_has_a_line_of_documentation_and_a_default():
    classes = [
        n for n in ast.parse(inspect.getsource(config)).body if isinstance(n, ast.ClassDef)
    ]
    names = {section.__name__ for section in SECTIONS}
    for node in (n for n in classes if n.name in names):
        for setting, after in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(setting, ast.AnnAssign):
                where = f"{node.name}.{ast.unparse(setting.target)}"
                assert setting.value is not None, f"{where} has no default"
                assert isinstance(after, ast.Expr), f"{where} has no documentation"
                assert len(ast.literal_eval(after.value)) > 10, f"{where} says too little"


@pytest.mark.parametrize("name", PRESETS)
def test_documented_yaml_explains_every_setting_and_reads_back_the_same(name, tmp_path):
    text = to_yaml(PRESETS[name], documented=True)
    settings = sum(len(section) for section in asdict(PRESETS[name]).values())
    assert text.count("  # ") == settings
    (tmp_path / "all.yaml").write_text(text)
    assert read_yaml(tmp_path / "all.yaml", Config()) == PRESETS[name]


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 lines"), (1, "1 line"), (2000, "2,000 lines")]
)
def test_one_thing_is_no_plural(number, text):
    assert counted(number, "lines") == text
