"""Schedules of a job by plain enumeration, written without the graph: what the package is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pypsa_aidc import TrainingLoad
from pypsa_aidc.training import Slots


@dataclass(frozen=True)
class Schedule:
    it_power: tuple[float, ...]
    gpus: tuple[int, ...]
    event_cost: float = 0.0
    held: tuple[int, ...] = ()
    steps: tuple[tuple[int, int, int], ...] = field(default=(), compare=False)
    """First slot, the first after it, and mode of each edge."""

    def cost(self, price: np.ndarray, slots: Slots, gpu_value: np.ndarray | float = 0.0) -> float:
        gpu_hours = np.array(self.held) * slots.hours
        return float(np.dot(self.it_power, price * slots.hours) + np.sum(gpu_hours * gpu_value)) + self.event_cost


def schedules(load: TrainingLoad, slots: Slots) -> Iterator[Schedule]:
    """All executable schedules of a load, each decision taken in the order in which a person would take it."""
    rules, horizon = load.rules, len(slots)
    borders = [0.0]
    for hours in slots.hours:
        borders.append(borders[-1] + float(hours))
    deadline = borders[-1] if load.deadline is None else load.deadline
    start = next(b for b in range(horizon + 1) if borders[b] >= rules.arrival - 1e-9)
    idle = ((0.0,) * horizon, (0,) * horizon, ())

    def run_until(border: int, hours: float) -> int | None:
        for stop in range(border + 1, horizon + 1):
            if borders[stop] - borders[border] >= hours - 1e-9 and borders[stop] <= deadline + 1e-9:
                return stop
        return None

    def go(
        border: int, done: int, waited: float, ran: float, mode_before: int | None, drawn: tuple, cost: float
    ) -> Iterator[Schedule]:
        if done == rules.count:
            held = [max(used, rules.held_gpus) if start <= t < border else 0 for t, used in enumerate(drawn[1])]
            delay = rules.delay_cost * (borders[border] - borders[start])
            yield Schedule(drawn[0], drawn[1], cost + delay, tuple(held), drawn[2])
            return
        may_wait = (
            rules.waiting and border < horizon and (waited > 0 or mode_before is None or ran >= rules.min_run - 1e-9)
        )
        if may_wait:
            yield from go(
                border + 1, done, waited + borders[border + 1] - borders[border], ran, mode_before, drawn, cost
            )
        if 0 < waited < rules.min_wait - 1e-9:
            return
        for position, mode in enumerate(load.modes):
            resumed = waited > 0
            changed = mode_before is not None and position != mode_before
            if changed and rules.mode_changes == "never":
                continue
            if changed and not resumed and rules.mode_changes == "after_wait":
                continue
            fee, lost, drawn_at_start = rules.mode_change_cost if changed and not resumed else 0.0, 0.0, 0.0
            if resumed:
                lost, drawn_at_start = rules.restart_hours, rules.restart_energy
            for pair in load.transitions:
                if changed and not resumed and (pair.before, pair.after) == (load.modes[mode_before].label, mode.label):
                    fee, lost, drawn_at_start = pair.cost, pair.hours, pair.energy
                    allowed = pair.allowed
                    break
            else:
                allowed = True
            if not allowed:
                continue
            for jump in range(1, min(rules.jump or rules.count, rules.count - done) + 1):
                share = math.fsum(rules.shares[done : done + jump])
                hours = load.hours(mode) * share + jump * rules.checkpoint_hours + lost
                stop = run_until(border, hours)
                if stop is None:
                    continue
                power, gpus = list(drawn[0]), list(drawn[1])
                for slot in range(border, stop):
                    power[slot], gpus[slot] = mode.it_power, mode.gpus
                power[border] += drawn_at_start / float(slots.hours[border])
                for slot in range(border, stop):
                    power[slot] += jump * rules.checkpoint_energy / (borders[stop] - borders[border])
                ran_on = borders[stop] - borders[border] + (0.0 if resumed else ran)
                steps = (*drawn[2], (border, stop, position))
                yield from go(stop, done + jump, 0.0, ran_on, position, (tuple(power), tuple(gpus), steps), cost + fee)

    yield from go(start, rules.progress, 0.0, 0.0, None, idle, 0.0)
