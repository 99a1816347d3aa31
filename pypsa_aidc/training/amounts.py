"""What one iteration asks of the busiest GPU of a layout: products, traffic, messages and memory, without any fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pypsa_aidc.training.gpu import GPU
from pypsa_aidc.training.job import Job
from pypsa_aidc.training.layout import AXES
from pypsa_aidc.training.recipe import Recipe
from pypsa_aidc.training.transformer import Transformer

Floats = NDArray[np.float64]

_TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.93), (128, 64, 0.8))
"""Rows and columns of the tiles that libraries choose from for a matrix product, and their speed."""
_NETWORK_SHARE = 0.6
"""Share of the adapters' rate that collectives over several servers reach."""
_PLAIN_BYTES, _SCORE_BYTES, _SCORE_AGAIN, _LOGIT_BYTES = 70.0, 38.0, 13.0, 24.0
"""Bytes read and written for each element: norms, residuals and dropout of a layer forward and backward; scores of
unfused attention forward and backward; scores computed again; scores over the vocabulary, copied to 32 bit, with
softmax, loss and gradient. Counted kernel by kernel from Korthikanti et al. 2022."""
_PASSES = 3.0
"""Matrix products of a training step over those of its forward pass."""


@dataclass(frozen=True)
class Amounts:
    """Amounts of one iteration for each of several layouts; arrays of one shape, in seconds of an ideal machine.

    Parameters
    ----------
    iteration_flops
        FLOPs of the iteration by the job's own count.
    gpus, peak
        GPUs of the layout; peak rate of one in FLOP/s.
    micro_batches
        m, of one replica.
    layers, last_layers, total_layers
        Layers of the heaviest stage, of the last one, and of all.
    bubble
        Idle time of a stage, in micro-batches.
    again
        Forward passes of a layer beside the first: 1 with full recomputation.
    matmul, waste, traffic
        Matrix products of one layer and micro-batch, all passes: at the best rate of the GPU; more for tiles and waves
        that are not full; time to read and write their operands.
    plain
        Traffic of norms, residuals and activations of one layer and micro-batch.
    attention, misaligned
        Scores and values of one layer and micro-batch; more for head widths that are no multiple of 8.
    attention_again, plain_again
        Whether scores, or norms and activations, are computed again by selective recomputation.
    tensor, context, expert
        Messages of one layer and micro-batch over each kind of group.
    tensor_calls
        Collectives of one layer and micro-batch that cross servers.
    routing
        Share of layers that have experts.
    eight_bit, hidden
        Whether products of the layers run in 8 bit; whether the schedule hides expert messages behind computing.
    head
        Vocabulary projection of one micro-batch, all passes, on the last stage.
    logits
        Traffic of the scores over the vocabulary of one micro-batch and of their loss, on the last stage.
    hop
        Message between two stages of one micro-batch, both ways.
    gradients, gathered
        Messages of data parallelism once in an iteration; with each micro-batch.
    update
        Traffic of the optimizer.
    states, activations
        Bytes on the fullest GPU.
    """

    iteration_flops: Floats
    gpus: Floats
    peak: Floats
    micro_batches: Floats
    layers: Floats
    last_layers: Floats
    total_layers: Floats
    bubble: Floats
    again: Floats
    matmul: Floats
    waste: Floats
    traffic: Floats
    plain: Floats
    attention: Floats
    misaligned: Floats
    attention_again: Floats
    plain_again: Floats
    tensor: Floats
    tensor_calls: Floats
    context: Floats
    expert: Floats
    routing: Floats
    eight_bit: Floats
    hidden: Floats
    head: Floats
    logits: Floats
    hop: Floats
    gradients: Floats
    gathered: Floats
    update: Floats
    states: Floats
    activations: Floats

    def __len__(self) -> int:
        return len(self.gpus)

    @classmethod
    def joined(cls, parts: Iterable[Amounts]) -> Amounts:
        """Put the layouts of several jobs one behind the other."""
        listed = list(parts)
        return cls(*(np.concatenate([getattr(part, each.name) for part in listed]) for each in fields(cls)))

    def take(self, rows: NDArray[np.intp]) -> Amounts:
        """Return some of the layouts."""
        return Amounts(*(getattr(self, each.name)[rows] for each in fields(self)))

    @classmethod
    def of(cls, job: Job, gpu: GPU, recipe: Recipe, layouts: NDArray[np.int64]) -> Amounts:
        """Count them for rows of sizes in the order of `Layout`."""
        model = job.model
        sizes = {axis: layouts[:, k].astype(float) for k, axis in enumerate(AXES)}
        # What one layer asks depends on few of the axes: count it once for each combination of those.
        own, back = np.unique(layouts[:, [AXES.index(a) for a in _LAYER_AXES]], axis=0, return_inverse=True)
        layer = _layer(job, gpu, recipe, *own.T.astype(float))
        per_layer = {name: value[back.ravel()] for name, value in layer.items()}
        p, q, d, c = (sizes[axis] for axis in ("pipeline", "tensor", "data", "context"))
        b, v = sizes["micro_batch"], sizes["chunks"]
        micro_batches = np.maximum(job.batch / (d * b), 1.0)
        stage = np.ceil(model.layers / p)
        # Where layers do not divide evenly the last stage, which has the vocabulary too, is the first to get one less.
        short = (stage * p > model.layers) & (p > 1)
        last = np.where(short, stage - 1, stage)
        tokens = b * job.sequence / c
        full = np.ones_like(p)
        share = np.where(q > 1, q if recipe.sequence_parallel else 1.0, 1.0)
        hop = 4.0 * tokens * model.hidden / share
        across = np.where(p * q * d * c <= gpu.server, gpu.link, gpu.network * _NETWORK_SHARE)
        gradients, gathered, update = _data(model, gpu, recipe, sizes, stage)
        states, activations = _memory(job, recipe, sizes, stage, last, micro_batches)
        return cls(
            iteration_flops=job.iteration_flops * full,
            gpus=p * q * d * c,
            peak=gpu.peak(recipe.precision) * full,
            micro_batches=micro_batches,
            layers=stage,
            last_layers=last,
            total_layers=model.layers * full,
            bubble=recipe.schedule.bubble(p, v),
            again=full * (recipe.recomputation == "full"),
            head=6.0 * tokens * model.hidden * model.vocabulary / q / (_peak(gpu, recipe) * gpu.matmul),
            logits=_LOGIT_BYTES * tokens * model.vocabulary / q / gpu.bandwidth,
            hop=np.where(p > 1, v * hop / across, 0.0),
            gradients=gradients,
            gathered=gathered,
            update=update,
            states=states,
            activations=activations,
            **per_layer,
        )


_LAYER_AXES = ("tensor", "context", "expert", "micro_batch")


def _layer(job: Job, gpu: GPU, recipe: Recipe, q: Floats, c: Floats, e: Floats, b: Floats) -> dict[str, Floats]:
    model, peak = job.model, _peak(gpu, recipe)
    tokens = b * job.sequence / c
    flops, waste, moved = (np.zeros_like(q) for _ in range(3))
    for rows, inner, columns, count, weight in _products(model, tokens, q, e):
        parts = _matmul(rows, inner, columns, count, gpu.processors)
        flops, waste, moved = (total + weight * part for total, part in zip((flops, waste, moved), parts, strict=True))
    share = np.where(recipe.sequence_parallel, q, 1.0)
    width, again = model.attention_width, recipe.recomputation != "none"
    mixed = model.experts
    sparse = 0.0 if mixed is None else 1 - mixed.dense_layers / model.layers
    active = model.ffn if mixed is None else (1 - sparse) * model.ffn + sparse * mixed.shared_ffn
    plain = tokens * (_PLAIN_BYTES * model.hidden / share + (30.0 if model.gated else 20.0) * active / q)
    if mixed is not None:
        plain = plain + sparse * tokens / q * mixed.active * (30.0 * mixed.ffn + 40.0 * model.hidden)
    scores = 4.0 * tokens * job.sequence * width / q
    if recipe.fused_attention:
        attention = _PASSES * scores / (peak * gpu.attention)
    else:
        bytes_ = (_SCORE_BYTES + _SCORE_AGAIN * again) * tokens * job.sequence * model.heads / q
        attention = _PASSES * scores / (peak * gpu.matmul * 0.6) + bytes_ / gpu.bandwidth
    # Tensor cores read 16 bytes at a time: a head of 108 or 150 elements falls back to slow kernels.
    odd = 0.0 if model.head_width % 8 == 0 else 1.0
    messages = 4.0 + 2.0 * (recipe.recomputation == "full")
    tensor = np.where(q > 1, messages * 2 * (q - 1) / q * 2.0 * tokens * model.hidden / _group(gpu, q, 1.0), 0.0)
    keys = 4.0 * tokens * np.maximum(model.kv_width / q, model.head_width if model.latent is None else 0)
    context = np.where(c > 1, 3 * keys * (c - 1) / _group(gpu, c, q), 0.0)
    return {
        "matmul": flops / (peak * gpu.matmul),
        "waste": waste / (peak * gpu.matmul),
        "traffic": moved / gpu.bandwidth,
        "plain": plain / gpu.bandwidth,
        "attention": attention,
        "misaligned": odd * _PASSES * scores / (peak * gpu.matmul),
        "attention_again": np.full_like(q, float(again and not recipe.fused_attention)),
        "plain_again": np.full_like(q, float(recipe.recomputation == "selective" and recipe.fused_attention)),
        "tensor": tensor,
        "tensor_calls": np.where(q > gpu.server, 2 * messages, 0.0),
        "context": context,
        "expert": sparse * _all_to_all(model, gpu, recipe, tokens / q, e),
        "routing": np.full_like(q, sparse),
        "hidden": np.full_like(q, float(recipe.schedule.kind == "dualpipe")),
        "eight_bit": np.full_like(q, float(recipe.precision == "fp8")),
    }


def _peak(gpu: GPU, recipe: Recipe) -> float:
    """Rate that a gain of 8 bit is counted from, and of what stays in 16 bit."""
    return gpu.peak("bf16" if recipe.precision == "fp8" else recipe.precision)


def _products(
    model: Transformer, tokens: Floats, q: Floats, e: Floats
) -> Iterable[tuple[Floats, Floats, Floats, Floats, float]]:
    """Rows, inner and outer width, count and share of layers of each matrix product of one layer's forward pass."""
    one, h = np.ones_like(q), model.hidden * np.ones_like(q)
    if model.latent is None:
        # More tensor ranks than key-value heads: each rank keeps a whole head, and gains nothing.
        keys = np.maximum(model.kv_width / q, np.minimum(model.head_width, model.kv_width))
        yield tokens, h, model.attention_width / q + 2 * keys, one, 1.0
        yield tokens, model.attention_width / q, h, one, 1.0
    else:
        down, query, pair, output = model.latent_matrices
        yield tokens, h, down[1] * one, one, 1.0
        if query[0]:
            yield tokens, query[0] * one, query[1] / q, one, 1.0
        yield tokens, pair[0] * one, pair[1] / q, one, 1.0
        yield tokens, output[0] / q, h, one, 1.0
    gate = 2 if model.gated else 1
    mixed = model.experts
    sparse = 0.0 if mixed is None else 1 - mixed.dense_layers / model.layers
    for width, share in ((model.ffn, 1 - sparse), (0 if mixed is None else mixed.shared_ffn, sparse)):
        if width and share:
            yield tokens, h, gate * width / q, one, share
            yield tokens, width / q, h, one, share
    if mixed is not None:
        # Spread experts are not cut over tensor ranks: each rank sends its part of the tokens.
        cut = np.where(e > 1, 1.0, q)
        rows = tokens * mixed.active / mixed.count * np.where(e > 1, e / q, 1.0)
        yield rows, h, gate * mixed.ffn / cut, mixed.count / e, sparse
        yield rows, mixed.ffn / cut, h, mixed.count / e, sparse


def _matmul(
    rows: Floats, inner: Floats, columns: Floats, count: Floats, processors: int
) -> tuple[Floats, Floats, Floats]:
    """FLOPs, FLOPs wasted on tiles and waves that are not full, and bytes moved, of all three passes."""
    flops = 2.0 * rows * inner * columns * count
    waste = np.zeros_like(flops)
    for down, right in ((rows, columns), (rows, inner), (inner, columns)):
        longest = np.full_like(flops, np.inf)
        for high, wide, speed in _TILES:
            tiles = count * np.ceil(down / high) * np.ceil(right / wide)
            waves = np.ceil(tiles / processors) * processors
            # A wave of few tiles splits the inner width instead: libraries never leave most processors idle.
            waves = np.where(tiles < processors, np.sqrt(tiles * processors), waves)
            longest = np.minimum(longest, waves * high * wide / (down * right * count) / speed)
        waste += flops * np.maximum(longest - 1, 0.0)
    moved = _PASSES * 2.0 * count * (rows * inner + inner * columns + rows * columns)
    return _PASSES * flops, waste, moved


def _group(gpu: GPU, ranks: Floats, stride: Floats | float) -> Floats:
    """Bandwidth of a ring over ranks that stand `stride` apart: the link inside a server, all its adapters beyond."""
    inside = np.clip(gpu.server / stride, 1.0, ranks)
    beyond = np.minimum(gpu.link, _NETWORK_SHARE * gpu.network * inside)
    return np.where(ranks * stride <= gpu.server, gpu.link, beyond)


def _all_to_all(model: Transformer, gpu: GPU, recipe: Recipe, tokens: Floats, e: Floats) -> Floats:
    """Dispatch and combination of tokens between the GPUs of the experts, forward and backward, in seconds."""
    mixed = model.experts
    if mixed is None:
        return np.zeros_like(e)
    servers = np.ceil(e / gpu.server)
    copies = np.minimum(mixed.active, np.where(servers > 1, mixed.groups or mixed.active, mixed.active))
    abroad = np.minimum(copies, servers) * (servers - 1) / servers
    each = 2.0 * model.hidden * ((1.0 if recipe.precision == "fp8" else 2.0) + 2.0)
    local = each * mixed.active * (e - 1) / e / gpu.link
    return np.asarray(np.where(e > 1, tokens * (local + each * abroad / (gpu.network * _NETWORK_SHARE)), 0.0))


def _weights(model: Transformer, sizes: dict[str, Floats]) -> tuple[Floats, Floats]:
    """Weights of one layer on one GPU: those of every rank, and those of its experts."""
    q, e = sizes["tensor"], sizes["expert"]
    mixed = model.experts
    if mixed is None:
        return model.layer_weights / q, np.zeros_like(q)
    sparse = 1 - mixed.dense_layers / model.layers
    resident = (1 - sparse) * model.layer_weights + sparse * model.resident_weights
    return resident / q, sparse * model.expert_weights / np.where(e > 1, e, q)


def _data(
    model: Transformer, gpu: GPU, recipe: Recipe, sizes: dict[str, Floats], stage: Floats
) -> tuple[Floats, Floats, Floats]:
    """Seconds of gradient and weight messages once and for each micro-batch, and of the optimizer's traffic."""
    q, c, e = sizes["tensor"], sizes["context"], sizes["expert"]
    ranks = sizes["data"] * c
    resident, experts = _weights(model, sizes)
    ends = model.vocabulary * model.hidden / q * np.where(sizes["pipeline"] > 1, 1.0, 1.0 if model.tied else 2.0)
    dense, spread = stage * resident + ends, stage * experts
    spread_ranks = np.maximum(ranks * q / np.where(e > 1, e, q), 1.0)
    seconds = [
        weights * (over - 1) / over / _group(gpu, over, stride)
        for weights, over, stride in ((dense, ranks, q), (spread, spread_ranks, np.where(e > 1, e, q)))
    ]
    unit = seconds[0] + seconds[1]
    grads, params = recipe.grad_bytes * unit, recipe.param_bytes * unit
    once = {0: 2 * grads, 1: grads + params, 2: params, 3: 0 * unit}[recipe.zero_stage]
    each = {0: 0 * unit, 1: 0 * unit, 2: grads, 3: grads + 2 * params}[recipe.zero_stage]
    held = dense / (ranks if recipe.zero_stage else 1.0) + spread / (spread_ranks if recipe.zero_stage else 1.0)
    update = held * (2 * recipe.optimizer_bytes + recipe.grad_bytes + recipe.param_bytes) / gpu.bandwidth
    return once, each, update


def _memory(
    job: Job, recipe: Recipe, sizes: dict[str, Floats], stage: Floats, last: Floats, micro_batches: Floats
) -> tuple[Floats, Floats]:
    """States and activations of the fullest stage: the first, one in the middle, or the last; Eq. 14 of [1]."""
    model = job.model
    p, q, c, e = (sizes[axis] for axis in ("pipeline", "tensor", "context", "expert"))
    ranks = sizes["data"] * c
    resident, experts = _weights(model, sizes)
    spread_ranks = np.maximum(ranks * q / np.where(e > 1, e, q), 1.0)
    shards = [recipe.param_bytes * recipe.schedule.copies, recipe.grad_bytes, recipe.optimizer_bytes]

    def bytes_a_weight(over: Floats) -> Floats:
        shared = [recipe.zero_stage >= least for least in (3, 2, 1)]
        return np.asarray(sum(s / np.where(cut, over, 1.0) for s, cut in zip(shards, shared, strict=True)))

    dense, spread = bytes_a_weight(ranks), bytes_a_weight(spread_ranks)
    table = model.vocabulary * model.hidden / q * dense
    tokens = sizes["micro_batch"] * job.sequence / c
    share = np.where(recipe.sequence_parallel, q, 1.0)
    layer, kept = _layer_activations(job, recipe, tokens, q, share)
    flight = recipe.schedule.in_flight(p, sizes["chunks"], micro_batches)
    logits = tokens * model.vocabulary / q * 4.0
    transient = layer if recipe.recomputation == "full" else 0.0 * layer
    if recipe.zero_stage == 3:
        # Two layers are whole while one is computed and the next one gathered.
        transient = transient + (2 * recipe.param_bytes + recipe.grad_bytes) * (resident + experts)
    weights = resident * dense + experts * spread
    first = np.where(stage * p - model.layers > 1, stage - 1, stage)
    one = np.where(p > 1, 0.0, 1.0)
    tables = 1.0 if model.tied else 2.0
    stages = [
        (first, table * np.where(p > 1, 1.0, tables), flight, one * logits),
        (stage, 0.0 * table, np.where(p > 2, np.maximum(flight - 1, np.minimum(1, flight)), flight), 0.0 * logits),
        (last, table * np.where(p > 1, 1.0, tables), np.where(p > 1, np.minimum(1.0, flight), flight), logits),
    ]
    states = np.stack([layers * weights + ends for layers, ends, _, _ in stages])
    live = np.stack([layers * kept * held + outputs + transient for layers, _, held, outputs in stages])
    fullest = np.argmax(states + live, axis=0)
    pick = (fullest, np.arange(states.shape[1]))
    return states[pick], live[pick]


def _layer_activations(job: Job, recipe: Recipe, tokens: Floats, q: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Bytes of one layer's activations for one micro-batch: in full, and what is kept for the backward pass.

    Korthikanti et al. 2022 count 10 s b h for norms, inputs and masks, 8 s b h/q for attention, 16 s b h/q for a block
    of width 4 h, and 5 s² b n_h/q for the scores; without dropout it is 8 s b h and 2 s² b n_h/q.
    """
    model, mixed = job.model, job.model.experts
    lean = recipe.fused_attention and recipe.recomputation == "selective"
    # Inputs of products in 8 bit are kept in 8 bit.
    width = 1.0 if recipe.precision == "fp8" and lean else 2.0
    gate = (2 * width if lean else 6.0) if model.gated else (width if lean else 4.0)
    if lean and model.latent is not None:
        heads = 2.0 * (model.latent.query_rank + model.latent.kv_rank + model.latent.rope_dim) * q
        heads = heads + 2.0 * model.heads * model.latent.value_dim
    else:
        heads = 4.0 * model.attention_width + 4.0 * np.maximum(model.kv_width, model.head_width * np.minimum(q, 1))
    sparse = 0.0 if mixed is None else 1 - mixed.dense_layers / model.layers
    block = model.ffn if mixed is None else (1 - sparse) * model.ffn + sparse * mixed.shared_ffn
    plain = (4.0 if lean else 8.0) + (2.0 if recipe.dropout else 0.0)
    base = tokens * (plain * model.hidden / share + (heads + gate * block) / q)
    if mixed is not None:
        routed = gate * mixed.ffn + (width if lean else 4.0) * model.hidden
        base = base + sparse * tokens * mixed.active * routed / q
    scored = (5.0 if recipe.dropout else 2.0) * tokens * job.sequence * model.heads / q
    layer = base + (0.0 if recipe.fused_attention else scored)
    if recipe.recomputation == "full":
        return layer, 2.0 * tokens * model.hidden / share
    return layer, base if recipe.recomputation == "selective" else layer
