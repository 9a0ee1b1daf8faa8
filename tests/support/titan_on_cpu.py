"""torchtitan's trainer on a machine without an accelerator, for which it is not made."""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock


def import_torchtitan() -> None:
    """Import torchtitan so that it takes the CPU for its accelerator.

    What the CPU lacks is replaced: counts of its memory, FlexAttention's backward, a reduction of gloo that
    multiplies, and a barrier of devices. Its trainer, loop, meshes, FSDP, checkpoints and contract of a data
    loader are as they are.
    """
    with mock.patch("torch._utils._get_available_device_type", return_value="cpu"):
        import torchtitan.trainer  # noqa: F401
    from torch.distributed.fsdp import FSDPModule
    from torchtitan.components import metrics
    from torchtitan.distributed import utils
    from torchtitan.models import llama3
    from torchtitan.models.common.attention import ScaledDotProductAttention

    peak = metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)
    monitor = SimpleNamespace(device_name="CPU", get_peak_stats=lambda: peak, reset_peak_stats=lambda: None)
    metrics.build_device_memory_monitor = lambda: monitor
    llama3.get_attention_config = lambda backend: ScaledDotProductAttention.Config()
    utils.set_pg_timeouts = lambda timeout, parallel_dims: None
    set_factor = FSDPModule.set_gradient_divide_factor

    def set_factor_and_sum(self: FSDPModule, factor: float) -> None:
        self.set_force_sum_reduction_for_comms(True)
        set_factor(self, factor)

    FSDPModule.set_gradient_divide_factor = set_factor_and_sum
