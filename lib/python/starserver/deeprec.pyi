# SPDX-License-Identifier: BSD-3-Clause
from typing import Any

from . import Cluster, Table

__all__: list[str]

class _Initializer:
    options: dict[str, Any]

class zeros_initializer(_Initializer):
    def __init__(self, dtype: object = None) -> None: ...

class ones_initializer(_Initializer):
    def __init__(self, dtype: object = None) -> None: ...

class constant_initializer(_Initializer):
    def __init__(self, value: float = 0, dtype: object = None) -> None: ...

class random_uniform_initializer(_Initializer):
    def __init__(self, minval: float = 0.0, maxval: float | None = None, seed: int | None = None, dtype: object = None) -> None: ...

class random_normal_initializer(_Initializer):
    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: object = None) -> None: ...

class truncated_normal_initializer(_Initializer):
    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: int | None = None, dtype: object = None) -> None: ...

class glorot_uniform_initializer(_Initializer):
    def __init__(self, seed: int | None = None, dtype: object = None) -> None: ...

class glorot_normal_initializer(_Initializer):
    def __init__(self, seed: int | None = None, dtype: object = None) -> None: ...

class he_uniform_initializer(_Initializer):
    def __init__(self, seed: int | None = None, dtype: object = None) -> None: ...

class he_normal_initializer(_Initializer):
    def __init__(self, seed: int | None = None, dtype: object = None) -> None: ...

class CounterFilter:
    filter_freq: int
    def __init__(self, filter_freq: int = 0) -> None: ...
    @property
    def options(self) -> dict[str, Any]: ...

class CBFFilter:
    filter_freq: int
    max_element_size: int
    false_positive_probability: float
    def __init__(self, filter_freq: int = 0, max_element_size: int = 0, false_positive_probability: float = -1.0,
                 counter_type: object = "uint64") -> None: ...
    @property
    def options(self) -> dict[str, Any]: ...

class GlobalStepEvict:
    steps_to_live: int
    def __init__(self, steps_to_live: int | None = None) -> None: ...
    @property
    def options(self) -> dict[str, Any]: ...

class L2WeightEvict:
    l2_weight_threshold: float
    def __init__(self, l2_weight_threshold: float = -1.0) -> None: ...
    @property
    def options(self) -> dict[str, Any]: ...

class InitializerOption:
    initializer: _Initializer | type[_Initializer] | None
    default_value_dim: int
    default_value_no_permission: float
    def __init__(self, initializer: _Initializer | type[_Initializer] | None = None, default_value_dim: int = 4096,
                 default_value_no_permission: float = 0.0) -> None: ...

class StorageOption:
    storage_type: str | None
    def __init__(self, storage_type: str | None = None, storage_path: str | None = None, storage_size: object = None,
                 cache_strategy: object = None) -> None: ...

class EmbeddingVariableOption:
    evict_option: GlobalStepEvict | L2WeightEvict | None
    filter_option: CounterFilter | CBFFilter | None
    storage_option: StorageOption | None
    init_option: InitializerOption
    def __init__(self, ht_type: str = "", ht_partition_num: int = 1000, evict_option: GlobalStepEvict | L2WeightEvict | None = None,
                 ckpt: object = None, filter_option: CounterFilter | CBFFilter | None = None,
                 storage_option: StorageOption | None = None, init_option: InitializerOption | None = None) -> None: ...

def get_embedding_variable(name: str, embedding_dim: int, key_dtype: object = "int64", value_dtype: object = None,
                           initializer: _Initializer | type[_Initializer] | None = None, trainable: bool = True,
                           partitioner: object = None, ev_option: EmbeddingVariableOption | None = None, *,
                           cluster: Cluster | None = None, optimizer: str | None = None, rate: float | None = None,
                           timeout: float | None = None, **options: object) -> Table: ...
