"""Wrong draws, groups and constructed tasks: part of the corpus of `test_malformed`."""

from tests.config.texts import classes, flat, nested

LIMITED = nested({"data": "{levels: [{name: task, count: 200}, {name: example, count: {min: 1, max: 70}}]}"})
LIMITS = [
    (
        "size above some counts",
        LIMITED.replace("size: 5", "size: §8"),
        [("DPC106", "`size: {at_most: N}` takes all of a smaller one")],
    ),
    (
        "limit of nothing",
        LIMITED.replace("size: 5", "size: {at_most: §0}"),
        [("DPC106", "at_most` must be at least 1")],
    ),
    ("limit of a half", LIMITED.replace("size: 5", "size: {at_most: §1.5}"), [("DPC102", "a whole number")]),
    (
        "misspelt limit",
        LIMITED.replace("size: 5", "§size: {atmost: 5}"),
        [("DPC102", "or {at_most: 8}, got a mapping")],
    ),
    (
        "limit of a shuffle",
        LIMITED.replace("task: {scheme: fixed, size: 4}", "task: {scheme: all}").replace(
            "fixed, size: 5", "shuffle, §size: {at_most: 5}"
        ),
        [("DPC102", "`at_most` is for scheme fixed")],
    ),
    (
        "group under a limit",
        LIMITED.replace("size: 5", "size: {at_most: 5}").replace("delta: 1e-6", "delta: 1e-6, group_size: §2"),
        [("DPC104", "expected 1 where level example is drawn with `at_most`, got 2")],
    ),
]
DRAWS = [
    (
        "no size to replace",
        flat({"sampling": None}) + "§sampling: {scheme: with-replacement}\n",
        [("DPC103", "`sampling.size` is missing")],
    ),
    (
        "no size to shuffle",
        flat({"sampling": None}) + "§sampling: {scheme: shuffle}\n",
        [("DPC103", "`sampling.size` is missing")],
    ),
    (
        "rate of with-replacement",
        flat({"sampling": "{scheme: with-replacement, §rate: 0.1}"}),
        [("DPC107", "`with-replacement` takes `size`")],
    ),
    ("rate of shuffle", flat({"sampling": "{scheme: shuffle, §rate: 0.1}"}), [("DPC107", "`shuffle` takes `size`")]),
    (
        "fixed without the last",
        flat({"sampling": "{scheme: fixed, size: 4, §drop_last: true}"}),
        [("DPC107", "`drop_last` does not go with scheme `fixed`")],
    ),
    (
        "poisson without the last",
        flat({"sampling": "{scheme: poisson, rate: 0.1, §drop_last: true}"}),
        [("DPC107", "Opacus with drop_last=True draws at `rate: 1/N`")],
    ),
    (
        "all without the last",
        flat({"sampling": "{scheme: all, §drop_last: false}"}),
        [("DPC107", "only passes over shuffled units have a last batch")],
    ),
    (
        "drop_last that is a number",
        flat({"sampling": "{scheme: shuffle, size: 4, drop_last: §1}"}),
        [("DPC102", "must be true or false, got the number 1")],
    ),
    (
        "shuffle of more than there are",
        flat({"sampling": "{scheme: shuffle, size: §60_001}"}),
        [("DPC106", "more than the count 60000")],
    ),
    (
        "scheme synonym",
        flat({"sampling": "{scheme: §bootstrap, size: 4}"}),
        [("DPC104", "calls this `with-replacement`")],
    ),
    (
        "held with replacement",
        flat({"sampling": "{scheme: with-replacement, size: 4, §redraw_every: 10}"}),
        [("DPC107", "`redraw_every` does not go with scheme `with-replacement`")],
    ),
    (
        "held shuffle",
        flat({"sampling": "{scheme: shuffle, size: 4, §redraw_every: 10}"}),
        [("DPC107", "fixed, poisson and all draws can be held")],
    ),
    ("held for no step", flat({"sampling": "{scheme: all, redraw_every: §0}"}), [("DPC106", "at least 1")]),
    ("held for half a step", flat({"sampling": "{scheme: all, redraw_every: §0.5}"}), [("DPC102", "a whole number")]),
    (
        "held longer than above",
        nested({"sampling": "{task: {scheme: fixed, size: 4}, example: {scheme: fixed, size: 5, redraw_every: §10}}"}),
        [("DPC107", "`sampling.example.redraw_every` is 10, longer than the 1 of level `task`")],
    ),
    (
        "period that does not divide",
        nested(
            {
                "sampling": "{task: {scheme: fixed, size: 4, redraw_every: 10}, "
                "example: {scheme: fixed, size: 5, redraw_every: §4}}"
            }
        ),
        [("DPC107", "`sampling.example.redraw_every` is 4, which does not divide the 10 of level `task`")],
    ),
    (
        "period in a phase",
        nested(
            {
                "phases": "[{sampling: {task: {redraw_every: 10}}}, "
                "{sampling: {task: {redraw_every: 6}, example: {redraw_every: §5}}}]"
            }
        ),
        [("DPC107", "`phases[1].sampling.example.redraw_every` is 5, which does not divide the 6")],
    ),
    (
        "shuffle under a draw",
        nested({"sampling": "{task: {scheme: fixed, size: 4}, example: {scheme: §shuffle, size: 5}}"}),
        [("DPC107", "level `task` above it is not drawn whole")],
    ),
    (
        "epochs of shuffled sizes",
        nested(
            {
                "data": "{levels: [{name: task, count: 9}, {name: example, count: {min: 5, max: 20}}]}",
                "sampling": "{task: {scheme: all}, example: {scheme: shuffle, size: 5}}",
                "training": "{§epochs: 3}",
            }
        ),
        [("DPC107", "state `steps`")],
    ),
]
GROUPS = [
    (
        "group of more than there are",
        flat({"privacy": "{adjacency: zero-out, delta: 1e-6, group_size: §60_001}"}),
        [("DPC106", "at most 60000 of level `example` can be protected together: there are no more")],
    ),
    (
        "group that leaves too few",
        flat(
            {
                "sampling": "{scheme: shuffle, size: 256}",
                "privacy": "{adjacency: add-remove, delta: 1e-6, group_size: §59_745}",
            }
        ),
        [("DPC106", "at most 59744 of level `example` can be removed together | a step must find 256 of those")],
    ),
    (
        "group in a tree",
        nested(
            {
                "data": "{levels: [{name: task}, {name: example}], tree: [9, 7]}",
                "sampling": "{task: {scheme: fixed, size: 1}, example: {scheme: fixed, size: 5}}",
                "privacy": "{unit: example, adjacency: add-remove, delta: 1e-6, group_size: §17}",
            }
        ),
        [("DPC106", "at most 16 of level `example` can be protected together: there are no more")],
    ),
    (
        "large group with replacement",
        nested(
            {
                "sampling": "{task: {scheme: with-replacement, size: 4}}",
                "privacy": "{unit: example, adjacency: zero-out, delta: 1e-6, group_size: §13}",
            }
        ),
        [("DPC104", "at most 12 units under draws with replacement, got 13")],
    ),
    (
        "group of constructed records",
        classes({"privacy": "{unit: image, adjacency: zero-out, delta: 1e-6, group_size: §2}"}),
        [("DPC104", "expected 1 for records of constructed episodes, got 2")],
    ),
    (
        "group of too many classes",
        classes({"privacy": "{unit: class, adjacency: add-remove, delta: 1e-6, group_size: §60}"}),
        [("DPC106", "at most 59 of level `class`")],
    ),
]
BUILT = [
    (
        "episodes as a number",
        classes({"sampling": "{episodes: §4}"}),
        [("DPC102", "must be a mapping, got the number 4")],
    ),
    (
        "no ways",
        classes({"sampling": "{§episodes: {tasks: 4, shots: 1, queries: 15}}"}),
        [("DPC103", "`sampling.episodes.ways` is missing")],
    ),
    (
        "no queries",
        classes({"sampling": "{§episodes: {tasks: 4, ways: 5, shots: 1}}"}),
        [("DPC103", "`sampling.episodes.queries` is missing")],
    ),
    (
        "n-way",
        classes({"sampling": "{episodes: {tasks: 4, §n_way: 5, shots: 1, queries: 15}}"}),
        [("DPC101", "dpcalc calls this `ways`")],
    ),
    (
        "unknown of episodes",
        classes({"sampling": "{episodes: {tasks: 4, ways: 5, shots: 1, queries: 15, §lr: 3}}"}),
        [("DPC101", "unknown key `lr` in `sampling.episodes`")],
    ),
    (
        "no tasks",
        classes({"sampling": "{episodes: {tasks: §0, ways: 5, shots: 1, queries: 15}}"}),
        [("DPC106", "`sampling.episodes.tasks` must be at least 1")],
    ),
    (
        "negative shots",
        classes({"sampling": "{episodes: {tasks: 4, ways: 5, shots: §-1, queries: 15}}"}),
        [("DPC106", "at least 0")],
    ),
    (
        "tasks without records",
        classes({"sampling": "{§episodes: {tasks: 4, ways: 5, shots: 0, queries: 0}}"}),
        [("DPC106", "`shots` and `queries` are both 0")],
    ),
    (
        "more ways than classes",
        classes({"sampling": "{episodes: {tasks: 4, ways: §65, shots: 1, queries: 15}}"}),
        [("DPC106", "`sampling.episodes.ways` is 65, more than the 64 of level `class`")],
    ),
    (
        "more shots than records",
        classes({"sampling": "{§episodes: {tasks: 4, ways: 5, shots: 300, queries: 301}}"}),
        [("DPC106", "draws 300 + 301 records of a class, more than the 600 of level `image`")],
    ),
    (
        "more shots than in the smallest class",
        classes(
            {
                "data": "{levels: [{name: class}, {name: image}], tree: [20, 15, 20]}",
                "sampling": "{§episodes: {tasks: 4, ways: 2, shots: 1, queries: 15}}",
            }
        ),
        [("DPC106", "draws 1 + 15 records of a class, more than the 15 of `data.tree[1]`")],
    ),
    (
        "more shots than the fewest",
        classes(
            {
                "data": "{levels: [{name: class, count: 64}, {name: image, count: {min: 9, max: 20}}]}",
                "sampling": "{§episodes: {tasks: 4, ways: 2, shots: 5, queries: 5}}",
            }
        ),
        [("DPC106", "more than the smallest count 9 of level `image`")],
    ),
    (
        "episodes and a draw",
        classes({"sampling": "{episodes: {tasks: 4, ways: 5, shots: 1, queries: 15}, §class: {scheme: all}}"}),
        [("DPC107", "`class` and `episodes` in `sampling` both say how a step draws")],
    ),
    (
        "episodes and a short draw",
        classes({"sampling": "{§scheme: all, episodes: {tasks: 4, ways: 5, shots: 1, queries: 15}}"}),
        [("DPC107", "`scheme` and `episodes` in `sampling` both say how a step draws")],
    ),
    (
        "episodes of one level",
        flat({"sampling": "{§episodes: {tasks: 32, ways: 5, shots: 1, queries: 15}}"}),
        [("DPC107", "takes two levels, classes and their records, and the data have 1 (example)")],
    ),
    (
        "episodes of a level",
        nested({"sampling": "{task: {scheme: all, §episodes: 3}}"}),
        [("DPC101", "it belongs in `sampling`")],
    ),
    (
        "constructed task as unit",
        classes({"privacy": "{unit: §task, adjacency: add-remove, delta: 1e-6}"}),
        [("DPC206", "a record sits in many of them | hiding one task hides nobody; protect `class` or `image`")],
    ),
    (
        "clip of a class",
        classes({"mechanism": "{noise_multiplier: 6, clip: §class}"}),
        [("DPC107", "`clip: task` clips each constructed task, `clip: image` each image in it")],
    ),
    (
        "clip of nothing",
        classes({"mechanism": "{noise_multiplier: 6, clip: §tsk}"}),
        [("DPC108", "did you mean `task`?")],
    ),
    ("epochs of episodes", classes({"training": "{§epochs: 3}"}), [("DPC107", "state `steps`")]),
    (
        "level called task",
        classes(
            {
                "data": "{levels: [{name: §task, count: 64}, {name: image, count: 600}]}",
                "privacy": "{unit: image, delta: 1e-6}",
            }
        ),
        [("DPC107", "`data.levels[0].name` is `task`, which is what `sampling.episodes` constructs"), None],
    ),
    (
        "episodes in a phase only",
        classes({"sampling": "{class: {scheme: all}}", "phases": "[{sampling: {§episodes: {tasks: 4}}}]"}),
        [("DPC103", "`phases[0].sampling.episodes.ways` is missing"), None],
    ),
    (
        "episode",
        classes(
            {
                "sampling": "{§episode: {tasks: 4, ways: 5, shots: 1, queries: 15}}",
                "mechanism": "{noise_multiplier: 6, clip: image}",
            }
        ),
        [("DPC101", "unknown key `episode` in `sampling` | did you mean `episodes`?")],
    ),
    (
        "ways beside levels",
        classes(
            {
                "sampling": "{§ways: 5, tasks: 4, shots: 1, queries: 15}",
                "mechanism": "{noise_multiplier: 6, clip: image}",
            }
        ),
        [("DPC101", "unknown key `ways` in `sampling` | put it under `episodes`")],
    ),
    (
        "meta-batch of tasks",
        classes({"sampling": "{episodes: {§meta_batch_size: 4, ways: 5, shots: 1, queries: 15}}"}),
        [("DPC101", "dpcalc calls this `tasks`")],
    ),
]
