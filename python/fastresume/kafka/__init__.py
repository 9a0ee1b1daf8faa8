"""Kafka topics as datasets: rounds of fixed rows, with a state that fits any number of ranks."""

from fastresume.kafka.avro import Avro
from fastresume.kafka.dataset import KafkaDataset
from fastresume.kafka.values import JSON, ArrowIPC

__all__ = ["JSON", "ArrowIPC", "Avro", "KafkaDataset"]
