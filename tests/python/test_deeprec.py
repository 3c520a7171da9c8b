# SPDX-License-Identifier: BSD-3-Clause
"""DeepRec's names for tables."""
import unittest

import numpy
import starserver
from starserver import deeprec as tf
from support import WithCluster

ONES = numpy.ones((1, 4), "float32")


class DeepRec(WithCluster):
    def variable(self, **options):
        return tf.get_embedding_variable(self.id(), 4, **{"cluster": self.cluster, **options})

    def definition(self, **options):
        definition = self.cluster.definition(self.variable(**options).name)
        self.cluster.lookup(self.id()).drop()
        return definition

    def test_the_issues_example(self):
        option = tf.EmbeddingVariableOption(filter_option=tf.CounterFilter(3), evict_option=tf.GlobalStepEvict(4000))
        table = self.variable(initializer=tf.ones_initializer("float32"), ev_option=option, optimizer="sgd", rate=1.0)
        made = self.cluster.definition(table.name)
        self.assertEqual([made[key] for key in ("filter", "filter_frequency", "steps_to_live", "initializer", "optimizer", "dim")],
                         ["counter", 3, 4000, "ones", "sgd", 4])
        self.assertEqual([table.pull([7])[0, 0] for _ in range(4)], [0, 0, 1, 1])
        table.push([7], ONES)
        self.assertEqual(table.pull([7])[0, 0], 0)

    def test_filters_and_evictions(self):
        for option, want in (
                (dict(filter_option=tf.CBFFilter(filter_freq=3, max_element_size=2**14, false_positive_probability=0.01,
                                                 counter_type="int64")),
                 {"filter": "bloom", "filter_frequency": 3, "filter_keys": 2**14, "filter_error": 0.01}),
                (dict(filter_option=tf.CounterFilter()), {"filter": "none"}),
                (dict(filter_option=tf.CBFFilter()), {"filter": "none"}),
                (dict(evict_option=tf.L2WeightEvict(0.5)), {"l2_threshold": 0.5}),
                (dict(evict_option=tf.L2WeightEvict()), {"l2_threshold": 0}),
                (dict(evict_option=tf.GlobalStepEvict()), {"steps_to_live": 0}),
                (dict(ht_type="dense_hash_map_lockless", ht_partition_num=1, storage_option=tf.StorageOption("DRAM")), {"filter": "none"}),
                (dict(filter_option=tf.CounterFilter(2), init_option=tf.InitializerOption(tf.ones_initializer, 10000, 0.25)),
                 {"filter_value": 0.25, "initializer": "ones"})):
            made = self.definition(ev_option=tf.EmbeddingVariableOption(**option))
            for key, value in want.items():
                self.assertEqual(made[key] if isinstance(value, str) else round(float(made[key]), 6), value, (option, key))

    def test_initializers(self):
        keys = numpy.arange(4000)
        for initializer, mean, deviation, most in (
                (tf.zeros_initializer(), 0, 0, 0), (tf.constant_initializer(2.5), 2.5, 0, 0),
                (tf.random_uniform_initializer(1.0, 3.0, seed=5), 2, 0.5774, 1), (tf.random_uniform_initializer(), 0.5, 0.2887, 0.5),
                (tf.random_normal_initializer(1.0, 0.1), 1, 0.1, 0.7), (tf.truncated_normal_initializer(1.0, 0.1), 1, 0.08796, 0.2),
                (tf.glorot_uniform_initializer(), 0, 0.6325, 1.0955), (tf.glorot_normal_initializer(seed=3), 0, 0.6325, 1.4382),
                (tf.he_uniform_initializer(), 0, 1.4142, 2.4495), (tf.he_normal_initializer, 0, 1.4142, 3.2159), (None, 0, 0.8796, 2)):
            table = self.variable(initializer=initializer)
            rows = table.pull(keys).astype("float64")
            self.assertLessEqual(abs(rows - mean).max(), most + 1e-6, initializer)
            self.assertAlmostEqual(rows.mean(), mean, delta=0.05, msg=initializer)
            self.assertAlmostEqual(rows.std(), deviation, delta=0.02 * deviation, msg=initializer)
            table.drop()

    def test_the_rest_of_the_arguments(self):
        made = self.definition(key_dtype="int32", value_dtype=numpy.dtype("float16"), trainable=False, partitioner=object())
        self.assertEqual((made["dtype"], made["optimizer"]), ("float16", "none"))
        self.assertEqual(self.definition(optimizer="adam", rows_max=1000)["rows_max"], 1000)

    def test_what_has_no_meaning_here_is_refused(self):
        for call, error, what in (
                (lambda: tf.StorageOption("DRAM_SSDHASH", "/ssd"), ValueError, "memory"),
                (lambda: tf.EmbeddingVariableOption(ckpt=object()), ValueError, "checkpoint"),
                (lambda: tf.EmbeddingVariableOption(filter_option=tf.GlobalStepEvict(1)), TypeError, "CounterFilter or CBFFilter"),
                (lambda: tf.CBFFilter(3), ValueError, "max_element_size"), (lambda: tf.CounterFilter(-1), ValueError, "filter_freq"),
                (lambda: tf.GlobalStepEvict(1.5), ValueError, "steps_to_live"), (lambda: tf.L2WeightEvict(0), ValueError, "above 0"),
                (lambda: tf.random_uniform_initializer(1, 1), ValueError, "minval"),
                (lambda: self.variable(initializer="normal"), TypeError, "initializer"),
                (lambda: self.variable(key_dtype="string"), TypeError, "hash"),
                (lambda: self.variable(ev_option=tf.CounterFilter(3)), TypeError, "EmbeddingVariableOption"),
                (lambda: self.variable(trainable=False, optimizer="adam"), ValueError, "trainable"),
                (lambda: self.variable(steps_to_leave=3), starserver.StarError, "steps_to_leave")):
            with self.assertRaisesRegex(error, what):
                call()

    def test_the_only_cluster_that_is_open(self):
        tf.get_embedding_variable("only", 4).drop()
        with self.local.connect():
            with self.assertRaisesRegex(ValueError, "2 clusters are open"):
                tf.get_embedding_variable("only", 4)


if __name__ == "__main__":
    unittest.main()
