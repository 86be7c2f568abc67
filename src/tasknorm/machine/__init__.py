"""The machine that a run computes on: devices, cores, threads, processes, memory, and reading files from its disks."""

from tasknorm.machine.devices import chosen_device, cores
from tasknorm.machine.memory import keep_freed_memory, return_freed_memory
from tasknorm.machine.processes import Processes, connected
from tasknorm.machine.reading import LARGEST_TEXT, open_regular, parsed_json, read_json, read_regular
from tasknorm.machine.threads import in_order, single_threaded_pool

__all__ = [
    "LARGEST_TEXT",
    "Processes",
    "chosen_device",
    "connected",
    "cores",
    "in_order",
    "keep_freed_memory",
    "open_regular",
    "parsed_json",
    "read_json",
    "read_regular",
    "return_freed_memory",
    "single_threaded_pool",
]
