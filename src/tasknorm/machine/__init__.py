"""The machine that a run computes on: devices, cores, threads, processes, memory."""

from tasknorm.machine.devices import chosen_device, cores
from tasknorm.machine.memory import keep_freed_memory
from tasknorm.machine.processes import Processes, connected
from tasknorm.machine.threads import in_order

__all__ = ["Processes", "chosen_device", "connected", "cores", "in_order", "keep_freed_memory"]
