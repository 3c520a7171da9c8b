# SPDX-License-Identifier: BSD-3-Clause
"""DeepRec's and TensorFlow's names for tables, for programs that come from there.

    from starserver import deeprec as tf

    users = tf.get_embedding_variable("user", embedding_dim=16, initializer=tf.glorot_uniform_initializer(),
                                      ev_option=tf.EmbeddingVariableOption(filter_option=tf.CounterFilter(filter_freq=3),
                                                                           evict_option=tf.GlobalStepEvict(steps_to_live=4000)),
                                      optimizer="adagrad", rate=0.1, cluster=cluster)
    layer = starserver.torch.Embedding(users)

The names and defaults are those of DeepRec; what is said differently is in docs/deeprec.rst, "Coming from DeepRec's Python".
"""
import math

from ._cluster import open_cluster

__all__ = ["CBFFilter", "CounterFilter", "EmbeddingVariableOption", "GlobalStepEvict", "InitializerOption", "L2WeightEvict",
           "StorageOption", "constant_initializer", "get_embedding_variable", "glorot_normal_initializer",
           "glorot_uniform_initializer", "he_normal_initializer", "he_uniform_initializer", "ones_initializer",
           "random_normal_initializer", "random_uniform_initializer", "truncated_normal_initializer", "zeros_initializer"]


class _Initializer:
    """options: of the table, as `starctl tables options` lists them."""

    def __init__(self, name, **options):
        self.options = {"initializer": name, **{key: value for key, value in options.items() if value is not None}}

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"


class zeros_initializer(_Initializer):
    """Rows begin with 0. dtype: ignored; the table has its own."""

    def __init__(self, dtype=None):
        super().__init__("zeros")


class ones_initializer(_Initializer):
    """Rows begin with 1."""

    def __init__(self, dtype=None):
        super().__init__("ones")


class constant_initializer(_Initializer):
    """Rows begin with `value`, one number."""

    def __init__(self, value=0, dtype=None):
        super().__init__("constant", scale=float(value))


class random_uniform_initializer(_Initializer):
    """From minval up to, but not including, maxval (None: 1)."""

    def __init__(self, minval=0.0, maxval=None, seed=None, dtype=None):
        maxval = 1.0 if maxval is None else maxval
        if not minval < maxval:
            raise ValueError(f"minval is below maxval; not {minval} and {maxval}")
        super().__init__("uniform", mean=(minval + maxval) / 2, scale=(maxval - minval) / 2, seed=seed)


class random_normal_initializer(_Initializer):
    """Of that mean and standard deviation."""

    def __init__(self, mean=0.0, stddev=1.0, seed=None, dtype=None):
        super().__init__("normal", mean=mean, scale=stddev, seed=seed)


class truncated_normal_initializer(_Initializer):
    """The same, drawn again beyond two standard deviations."""

    def __init__(self, mean=0.0, stddev=1.0, seed=None, dtype=None):
        super().__init__("truncated_normal", mean=mean, scale=stddev, seed=seed)


class glorot_uniform_initializer(_Initializer):
    """Of fan in 1 and fan out embedding_dim."""

    def __init__(self, seed=None, dtype=None):
        super().__init__("glorot_uniform", seed=seed)


class glorot_normal_initializer(_Initializer):
    """Of fan in 1 and fan out embedding_dim."""

    def __init__(self, seed=None, dtype=None):
        super().__init__("glorot_normal", seed=seed)


class he_uniform_initializer(_Initializer):
    """Of fan in 1."""

    def __init__(self, seed=None, dtype=None):
        super().__init__("he_uniform", seed=seed)


class he_normal_initializer(_Initializer):
    """Of fan in 1."""

    def __init__(self, seed=None, dtype=None):
        super().__init__("he_normal", seed=seed)


def _count(what, value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{what} is a whole number from 0, not {value!r}")
    return value


class CounterFilter:
    """A key gets its row with its filter_freq-th pull or push; 0: with the first."""

    def __init__(self, filter_freq=0):
        self.filter_freq = _count("filter_freq", filter_freq)

    @property
    def options(self):
        return {"filter": "counter", "filter_frequency": self.filter_freq} if self.filter_freq else {}


class CBFFilter:
    """The same by a counting Bloom filter, laid out for max_element_size keys, of which it lets a share of false_positive_probability in
    too early. counter_type: ignored; counters are as large as they must be."""

    def __init__(self, filter_freq=0, max_element_size=0, false_positive_probability=-1.0, counter_type="uint64"):
        self.filter_freq = _count("filter_freq", filter_freq)
        self.max_element_size = _count("max_element_size", max_element_size)
        self.false_positive_probability = false_positive_probability
        if self.filter_freq and not (self.max_element_size and 0 < false_positive_probability < 1):
            raise ValueError("CBFFilter needs max_element_size, the keys that it is laid out for, and false_positive_probability, between "
                             "0 and 1; DeepRec counts exactly without them: that is CounterFilter")

    @property
    def options(self):
        if not self.filter_freq:
            return {}
        return {"filter": "bloom", "filter_frequency": self.filter_freq, "filter_keys": self.max_element_size,
                "filter_error": self.false_positive_probability}


class GlobalStepEvict:
    """Rows that were not used for this many steps are removed; None or 0: none."""

    def __init__(self, steps_to_live=None):
        self.steps_to_live = _count("steps_to_live", steps_to_live or 0)

    @property
    def options(self):
        return {"steps_to_live": self.steps_to_live} if self.steps_to_live else {}


class L2WeightEvict:
    """Rows with half a sum of squares below l2_weight_threshold are removed by `starctl tables sweep`; -1: none."""

    def __init__(self, l2_weight_threshold=-1.0):
        if l2_weight_threshold <= 0 and l2_weight_threshold != -1.0:
            raise ValueError(f"l2_weight_threshold is above 0, or -1 for none; not {l2_weight_threshold}")
        self.l2_weight_threshold = l2_weight_threshold

    @property
    def options(self):
        return {"l2_threshold": self.l2_weight_threshold} if self.l2_weight_threshold > 0 else {}


class InitializerOption:
    """initializer: of rows, where get_embedding_variable() is given none. default_value_no_permission: what a key reads that has no row
    yet. default_value_dim: ignored; DeepRec draws this many rows in advance, here each key has its own."""

    def __init__(self, initializer=None, default_value_dim=4096, default_value_no_permission=0.0):
        self.initializer = initializer
        self.default_value_dim = default_value_dim
        self.default_value_no_permission = default_value_no_permission


class StorageOption:
    """Rows are in the nodes' memory: storage_type is None or "DRAM", and there is no storage_path. storage_size and
    cache_strategy are ignored."""

    def __init__(self, storage_type=None, storage_path=None, storage_size=None, cache_strategy=None):
        if storage_type not in (None, "DRAM") or storage_path is not None:
            raise ValueError(f"storage_type={storage_type!r}, storage_path={storage_path!r}: rows are in the nodes' memory (DRAM). Where they "
                             "have no room, rows_max= and full=\"evict_lfu\" or \"evict_lru\" make room")
        self.storage_type = storage_type


class EmbeddingVariableOption:
    """filter_option: CounterFilter or CBFFilter. evict_option: GlobalStepEvict or L2WeightEvict. init_option, storage_option.
    ht_type and ht_partition_num are ignored: each reactor has its part of the rows, without locks. ckpt is refused: checkpoints
    are the
    cluster's (docs/checkpoints.rst)."""

    def __init__(self, ht_type="", ht_partition_num=1000, evict_option=None, ckpt=None, filter_option=None, storage_option=None,
                 init_option=None):
        for what, value, kinds in (("evict_option", evict_option, (GlobalStepEvict, L2WeightEvict)),
                                   ("filter_option", filter_option, (CounterFilter, CBFFilter)),
                                   ("storage_option", storage_option, (StorageOption,)),
                                   ("init_option", init_option, (InitializerOption,))):
            if value is not None and not isinstance(value, kinds):
                raise TypeError(f"{what} is {' or '.join(kind.__name__ for kind in kinds)}, not {type(value).__name__}")
        if ckpt is not None:
            raise ValueError("ckpt: nodes begin with the newest checkpoint of the cluster, `starctl checkpoint import` brings rows from "
                             "elsewhere (docs/checkpoints.rst)")
        self.evict_option, self.filter_option = evict_option, filter_option
        self.storage_option, self.init_option = storage_option, init_option or InitializerOption()


def get_embedding_variable(name, embedding_dim, key_dtype="int64", value_dtype=None, initializer=None, trainable=True, partitioner=None,
                           ev_option=None, *, cluster=None, optimizer=None, rate=None, timeout=None, **options):
    """Creates a table, or finds it when it exists with the same definition: Cluster.table() by DeepRec's names. Returns a Table.

    key_dtype: "int64", "int32" or "uint64"; keys have 64 bits. value_dtype: as for Cluster.table() ("float32"). initializer: one of this
    module's (None: ev_option's, and without that truncated_normal_initializer(), as in DeepRec). trainable: False for optimizer="none".
    partitioner: ignored; rows are always on all nodes. cluster: None for the only one that is open. optimizer, rate, timeout
    and further options
    by name: as for Cluster.table(); a table has its optimizer from the beginning, where DeepRec is given one later.
    """
    if str(getattr(key_dtype, "name", key_dtype)) not in ("int64", "int32", "uint64"):
        raise TypeError(f"keys are whole numbers of 64 bits; not {key_dtype!r}: hash strings before")
    if ev_option is not None and not isinstance(ev_option, EmbeddingVariableOption):
        raise TypeError(f"ev_option is an EmbeddingVariableOption, not {type(ev_option).__name__}")
    if not trainable:
        if optimizer not in (None, "none"):
            raise ValueError(f"trainable=False has no optimizer \"{optimizer}\"")
        optimizer = "none"
    ev_option = ev_option or EmbeddingVariableOption()
    initializer = initializer or ev_option.init_option.initializer or truncated_normal_initializer()
    if isinstance(initializer, type) and issubclass(initializer, _Initializer):
        initializer = initializer()
    if not isinstance(initializer, _Initializer):
        raise TypeError(f"initializer is one of starserver.deeprec's, as glorot_uniform_initializer(); not {initializer!r}")
    made = dict(initializer.options)
    for option in (ev_option.filter_option, ev_option.evict_option):
        made.update(option.options if option else {})
    if "filter" in made and not math.isclose(ev_option.init_option.default_value_no_permission, 0):
        made["filter_value"] = ev_option.init_option.default_value_no_permission
    cluster = cluster or open_cluster()
    return cluster.table(name, embedding_dim, dtype=str(getattr(value_dtype, "name", value_dtype or "float32")), optimizer=optimizer,
                         rate=rate, timeout=timeout, **{**made, **options})
