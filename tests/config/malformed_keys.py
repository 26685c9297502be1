"""Keys that are unknown, misplaced, misspelt or missing: text, and code and words of each error."""

from tests.config.texts import flat, nested

KEYS = [
    ("unknown", flat({"§epsilonn": "3"}), [("DPC101", "unknown key `epsilonn` at the top level")]),
    (
        "unknown nested",
        flat({"privacy": "{adjacency: add-remove, delta: 1e-6, §foo: 1}"}),
        [("DPC101", "in `privacy`")],
    ),
    ("misspelt", flat({"mechanism": "{§noise_multiplyer: 1.1}"}), [("DPC101", "did you mean `noise_multiplier`?")]),
    (
        "synonym",
        flat({"mechanism": "{noise_multiplier: 1, §l2_norm_clip: 1}"}),
        [("DPC101", "dpcalc calls this `max_grad_norm`")],
    ),
    ("synonym elsewhere", flat({"§target_epsilon": "3"}), [("DPC101", "dpcalc calls this `budget.epsilon`")]),
    (
        "synonym of a required key",
        flat({"privacy": "{adjacency: add-remove, §target_delta: 1e-6}"}),
        [("DPC101", "calls this `delta`")],
    ),
    (
        "synonym of the scheme",
        flat({"sampling": "{§sampler: poisson, expected: 3}"}),
        [("DPC101", "calls this `scheme`")],
    ),
    ("another section's key", flat({"§delta": "1e-5"}), [("DPC101", "it belongs in `privacy`")]),
    *(
        (f"{key} at the top", flat({f"§{key}": value}), [("DPC101", f"it belongs in `{home}`")])
        for key, value, home in [
            ("noise_multiplier", "1", "mechanism"),
            ("max_grad_norm", "1", "mechanism"),
            ("epsilon", "1", "budget"),
            ("steps", "1", "training"),
            ("scheme", "all", "sampling"),
            ("unit", "example", "privacy"),
            ("type", "gaussian", "mechanism"),
            ("group_size", "2", "privacy"),
            ("levels", "[]", "data"),
        ]
    ),
    (
        "size of a level",
        nested({"data": "{levels: [{name: task, count: 200}, {name: example, §size: 20}]}"}),
        [("DPC101", "dpcalc calls this `count`")],
    ),
    ("size of the data", flat({"data": "{§size: 20}"}), [("DPC101", "calls this `examples`"), None]),
    ("type of a draw", flat({"sampling": "{§type: fixed, size: 20}"}), [("DPC101", "calls this `scheme`")]),
    ("count of a draw", flat({"sampling": "{scheme: fixed, §count: 20}"}), [("DPC101", "calls this `size`")]),
    (
        "misspelt section",
        flat({"mechanism": None, "§mechansim": "{noise_multiplier: 1}"}),
        [("DPC101", "did you mean `mechanism`?")],
    ),
    ("misspelt version", flat({"version": None, "§versoin": "1"}), [("DPC101", "did you mean `version`?")]),
    (
        "flat",
        "§batch_size: 512\ndataset_size: 50_000\nsigma: 1.0\nepochs: 50\ndelta: 1e-5\n",
        [
            (
                "DPC101",
                "`mechanism: {noise_multiplier: 1.0}`, `training: {batch_size: 512, epochs: 50}`, ",
            )
        ],
    ),
    ("something else", "§lr: 0.1\nmodel: resnet\n", [("DPC101", "it stands under `dpcalc:`")]),
    ("no version", flat({"version": None}).replace("data", "§data", 1), [("DPC103", "`version` is missing")]),
    ("no data", flat({"data": None, "version": "1"}).replace("v", "§v", 1), [("DPC103", "`data` is missing")]),
    ("no sampling", flat({"sampling": None}).replace("v", "§v", 1), [("DPC103", "`sampling` is missing")]),
    (
        "no delta",
        flat({"privacy": None}) + "§privacy: {adjacency: zero-out}\n",
        [("DPC103", "`privacy.delta` is missing")],
    ),
    (
        "no noise",
        flat({"mechanism": None}) + "§mechanism: {clip: example}\n",
        [("DPC103", "`mechanism.noise_multiplier`")],
    ),
    ("no scheme", flat({"sampling": None}) + "§sampling: {rate: 0.1}\n", [("DPC103", "`sampling.scheme` is missing")]),
    (
        "no rate",
        flat({"sampling": None}) + "§sampling: {scheme: poisson}\n",
        [("DPC103", "needs `rate` or `expected`")],
    ),
    ("no size", flat({"sampling": None}) + "§sampling: {scheme: fixed}\n", [("DPC103", "`sampling.size` is missing")]),
    ("no length", flat({"training": None}) + "§training: {}\n", [("DPC103", "needs `steps` or `epochs`")]),
    ("no count", flat({"data": "{levels: [§{name: example}]}"}), [("DPC103", "`data.levels[0].count` is missing")]),
    (
        "no outer level",
        nested({"sampling": None}) + "§sampling: {example: {scheme: all}}\n",
        [("DPC103", "`sampling.task` is missing")],
    ),
    (
        "no unit",
        nested({"privacy": None}) + "§privacy: {adjacency: zero-out, delta: 1e-6}\n",
        [("DPC103", "2 levels (task, example)")],
    ),
    ("no budget epsilon", flat({}) + "§budget: {max_increase_pct: 3}\n", [("DPC103", "`budget.epsilon` is missing")]),
]
