/* Prepares the host's own kernels for a plan: finds what the processor can do, packs weights, runs nodes. */
#include "stow_fast.h"

#if STOW_WITH_X86
#include <cpuid.h>

/* Whether the system keeps the registers in these bits of XCR0. */
static int stow_fast_keeps(uint32_t bits)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & bits) == bits;
}

static int stow_fast_has_avx2(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & bit_OSXSAVE) == 0 || (c & bit_AVX) == 0 || !stow_fast_keeps(0x6)) {
        return 0;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2) != 0;
}

static int stow_fast_has_avx512(void)
{
    uint32_t a, b, c, d;
    if (!stow_fast_has_avx2() || !stow_fast_keeps(0xE6) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return 0;
    }
    const uint32_t first = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
    return (b & first) == first && (c & bit_AVX512VNNI) != 0;
}
#endif

static int stow_fast_is(const char *name, const char *wanted)
{
    return *wanted == '\0' || strcmp(name, wanted) == 0;
}

const stow_fast_set *stow_fast_find(const char *name)
{
#if STOW_WITH_X86
    if (stow_fast_is(stow_fast_avx512.name, name) && stow_fast_has_avx512()) {
        return &stow_fast_avx512;
    }
    if (stow_fast_is(stow_fast_avx2.name, name) && stow_fast_has_avx2()) {
        return &stow_fast_avx2;
    }
#else
    (void)stow_fast_is;
    (void)name;
#endif
    return NULL;
}

/* Memory given out from the start of a block; without a block everything is only measured. */
typedef struct stow_fast_room {
    uint8_t *base;
    size_t used;
} stow_fast_room;

static void *stow_fast_take(stow_fast_room *room, size_t bytes)
{
    uint8_t *taken = room->base == NULL ? NULL : room->base + room->used;
    room->used += (bytes + STOW_FAST_ALIGNMENT - 1) / STOW_FAST_ALIGNMENT * STOW_FAST_ALIGNMENT;
    return taken;
}

static void stow_fast_put_weight(const stow_fast_set *set, uint8_t *to, size_t index, int8_t value)
{
    const int16_t wide = value;
    memcpy(to + index * set->element, set->element == 1 ? (const void *)&value : (const void *)&wide, set->element);
}

/* What the sum of an output begins with; `sum` is that of its weights. */
static int32_t stow_fast_bias(const stow_fast_set *set, const stow_filter_s8 *filter, size_t output, int32_t sum)
{
    const uint32_t excess = (uint32_t)set->bias * (uint32_t)sum;
    return stow_wrap(stow_first_sum(filter, output) - excess);
}

/* The words of one lane for an output. */
static void stow_fast_put_rule(const stow_fast_set *set, const stow_filter_s8 *filter, int ease, size_t output,
                               int32_t *words, size_t lane)
{
    const int32_t shift = filter->shift[output * filter->step];
    const uint32_t left = shift > 0 ? (uint32_t)shift & 31u : 0u, right = shift > 0 ? 0u : (0u - (uint32_t)shift) & 31u;
    const uint32_t mask = (UINT32_C(1) << right) - 1u;
    words[STOW_FAST_MULTIPLIER * set->lanes + lane] = filter->multiplier[output * filter->step];
    if (ease != STOW_FAST_HARD) {
        const int64_t rounding = stow_fast_rounding(ease, right, filter->zero_point);
        words[STOW_FAST_RIGHT * set->lanes + lane] = stow_fast_right(ease, right);
        memcpy(&words[(lane % 2 == 0 ? STOW_FAST_EVEN : STOW_FAST_ODD) * set->lanes + lane / 2 * 2], &rounding,
               sizeof rounding);
        return;
    }
    words[STOW_FAST_LEFT * set->lanes + lane] = (int32_t)left;
    words[STOW_FAST_RIGHT * set->lanes + lane] = (int32_t)right;
    words[STOW_FAST_MASK * set->lanes + lane] = stow_wrap(mask);
    words[STOW_FAST_HALF * set->lanes + lane] = stow_wrap(mask >> 1);
}

/* The largest sum that an output can have, of `depth` weights that lie `step` apart. */
static int64_t stow_fast_most(const stow_filter_s8 *filter, size_t output, const int8_t *w, size_t depth, size_t step)
{
    const int64_t first = stow_wrap(stow_first_sum(filter, output));
    int64_t most = first < 0 ? -first : first;
    for (size_t i = 0; i < depth; i++) {
        most += 128 * (int64_t)(w[i * step] < 0 ? -w[i * step] : w[i * step]);
    }
    return most;
}

/* Weights of an output lie `step` apart, those of the next begin `next` further on. */
static int stow_fast_ease_of(const stow_filter_s8 *filter, size_t outputs, size_t depth, size_t step, size_t next)
{
    for (size_t output = 0; output < outputs; output++) {
        const int8_t *w = filter->weights + output * next;
        const int32_t shift = filter->shift[output * filter->step];
        if (shift >= 0 || shift < -STOW_FAST_EASY_SHIFT ||
            stow_fast_most(filter, output, w, depth, step) >= INT64_C(1) << 29) {
            return STOW_FAST_HARD;
        }
    }
    if (filter->maximum != INT8_MAX || !stow_is_int8(filter->zero_point)) {
        return STOW_FAST_HARD;
    }
    return filter->minimum >= filter->zero_point ? STOW_FAST_EASIEST : STOW_FAST_EASY;
}

static int stow_fast_all_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!stow_is_finite(values[i])) {
            return 0;
        }
    }
    return 1;
}

/* Pack weights of `outputs` outputs for floats, and their biases: weight i of an output is that `step` times i after its
 * first one, which is `next` after that of the output before. Sums over padding add 0 times a weight, so that all weights
 * must be finite: else this is left to the kernels that skip padding. */
static void stow_fast_pack_floats(const stow_fast_set *set, stow_fast_room *room, stow_fast_filter *to,
                                  const stow_filter_f32 *filter, size_t outputs, size_t depth, size_t step, size_t next,
                                  size_t chunks)
{
    const size_t lanes = set->lanes, groups = chunks != 0 ? chunks : (outputs + lanes - 1) / lanes;
    if (!stow_fast_all_finite(filter->weights, outputs * depth)) {
        return;
    }
    to->outputs = outputs;
    to->chunks = chunks;
    to->least = filter->minimum;
    to->most = filter->maximum;
    to->group_bytes = depth * lanes * sizeof(float);
    float *weights = stow_fast_take(room, groups * to->group_bytes);
    float *biases = stow_fast_take(room, groups * lanes * sizeof(float));
    to->weights = (const uint8_t *)weights;
    to->biases = (const int32_t *)(const void *)biases;
    if (weights == NULL) {
        return;
    }
    memset(weights, 0, groups * to->group_bytes);
    memset(biases, 0, groups * lanes * sizeof(float));
    for (size_t at = 0; at < groups * lanes; at++) {
        const size_t output = chunks != 0 ? at % outputs : at;
        for (size_t i = 0; output < outputs && i < depth; i++) {
            weights[(at / lanes * depth + i) * lanes + at % lanes] = filter->weights[output * next + i * step];
        }
        biases[at] = output < outputs && filter->bias != NULL ? filter->bias[output] : 0.0f;
    }
}

static size_t stow_fast_ceil(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* A filter's memory while it is packed. */
typedef struct stow_fast_packing {
    uint8_t *weights;
    int32_t *biases;
    int32_t *rules;
} stow_fast_packing;

/* Take room for `groups` times group_bytes of weights and `vectors` times the lanes of all else, and clear it. Without
 * memory, nothing is to be packed: weights are NULL. */
static stow_fast_packing stow_fast_begin(const stow_fast_set *set, stow_fast_room *room, stow_fast_filter *to,
                                         const stow_filter_s8 *from, size_t groups, size_t vectors)
{
    const size_t lanes = set->lanes, rule = STOW_FAST_WORDS * lanes, rules = from->step == 0 ? 1 : vectors;
    const stow_fast_packing packing = {
        .weights = stow_fast_take(room, groups * to->group_bytes),
        .biases = stow_fast_take(room, vectors * lanes * sizeof(int32_t)),
        .rules = stow_fast_take(room, rules * rule * sizeof(int32_t)),
    };
    to->weights = packing.weights;
    to->biases = packing.biases;
    to->rules = packing.rules;
    to->rules_step = from->step == 0 ? 0 : rule;
    to->zero_point = from->zero_point;
    to->minimum = from->minimum;
    to->maximum = from->maximum;
    if (packing.weights != NULL) {
        memset(packing.weights, 0, groups * to->group_bytes);
        memset(packing.biases, 0, vectors * lanes * sizeof(int32_t));
        memset(packing.rules, 0, rules * rule * sizeof(int32_t));
    }
    return packing;
}

/* Fill in lane `lane` of vector `vector`, which is output `output`; `sum` is that of its weights. */
static void stow_fast_put_lane(const stow_fast_set *set, const stow_fast_packing *packing, const stow_fast_filter *to,
                               const stow_filter_s8 *from, size_t output, int32_t sum, size_t vector, size_t lane)
{
    packing->biases[vector * set->lanes + lane] = stow_fast_bias(set, from, output, sum);
    stow_fast_put_rule(set, from, to->ease, output, packing->rules + vector * to->rules_step, lane);
}

/* Pack `outputs` times `rows` runs of `depth` weights, for `vectors` vectors in all. */
static void stow_fast_pack_matrix(const stow_fast_set *set, stow_fast_room *room, stow_fast_filter *to,
                                  const stow_filter_s8 *filter, size_t outputs, size_t rows, size_t depth, size_t vectors)
{
    const size_t groups = stow_fast_ceil(outputs, set->lanes), lanes = set->lanes, unit = set->unit;
    to->outputs = outputs;
    to->ease = stow_fast_ease_of(filter, outputs, rows * depth, 1, filter->weights_step);
    to->rows = rows;
    to->units = stow_fast_ceil(depth, unit);
    to->group_bytes = rows * to->units * lanes * unit * set->element;
    to->together = vectors == 1 && groups % set->together == 0 ? set->together : 1;
    const stow_fast_packing packing = stow_fast_begin(set, room, to, filter, groups, groups);
    for (size_t output = 0; packing.weights != NULL && output < outputs; output++) {
        const size_t group = output / lanes, lane = output % lanes, together = to->together;
        uint8_t *start = packing.weights + group / together * together * to->group_bytes +
                         group % together * lanes * unit * set->element;
        const int8_t *from = filter->weights + output * filter->weights_step;
        int32_t sum = 0;
        for (size_t i = 0; i < rows * depth; i++) {
            const size_t at = (i / depth * to->units + i % depth / unit) * together * lanes + lane;
            stow_fast_put_weight(set, start, at * unit + i % depth % unit, from[i]);
            sum = stow_wrap_add(sum, from[i]);
        }
        stow_fast_put_lane(set, &packing, to, filter, output, sum, group, lane);
    }
}

static size_t stow_fast_divisor(size_t a, size_t b)
{
    while (b != 0) {
        const size_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* Pack `taps` runs of `channels` weights: for each chunk of a row of outputs, in which channels follow each other and
 * start over. */
static void stow_fast_pack_depthwise(const stow_fast_set *set, stow_fast_room *room, stow_fast_filter *to,
                                     const stow_filter_s8 *filter, size_t channels, size_t taps)
{
    const size_t lanes = set->lanes, unit = set->unit, wide = lanes * set->vectors;
    to->outputs = channels;
    to->ease = stow_fast_ease_of(filter, channels, taps, filter->weights_step, 1);
    to->chunks = channels / stow_fast_divisor(channels, wide);
    to->units = stow_fast_ceil(taps, unit);
    to->group_bytes = to->units * wide * unit * set->element;
    const stow_fast_packing packing = stow_fast_begin(set, room, to, filter, to->chunks, to->chunks * set->vectors);
    for (size_t at = 0; packing.weights != NULL && at < to->chunks * wide; at++) {
        const size_t chunk = at / wide, vector = at % wide / lanes, lane = at % lanes;
        const size_t channel = (chunk * wide + stow_fast_channel(set, vector, lane)) % channels;
        int32_t sum = 0;
        for (size_t tap = 0; tap < taps; tap++) {
            const int8_t value = filter->weights[tap * filter->weights_step + channel];
            const size_t place = ((tap / unit * set->vectors + vector) * lanes + lane) * unit + tap % unit;
            stow_fast_put_weight(set, packing.weights + chunk * to->group_bytes, place, value);
            sum = stow_wrap_add(sum, value);
        }
        stow_fast_put_lane(set, &packing, to, filter, channel, sum, chunk * set->vectors + vector, lane);
    }
}

/* How many vectors a fully connected node has. */
static size_t stow_fast_vectors(const stow_call *call)
{
    const stow_rows result = stow_result(call);
    return (size_t)result.rows * result.row_bytes / (size_t)call->params[STOW_FULLY_CONNECTED_S8_OUTPUTS];
}

static void stow_fast_prepare_s8(const stow_fast_set *set, stow_fast_room *room, stow_fast_filter *to,
                                 const stow_call *call, const stow_window *w)
{
    stow_filter_s8 filter;
    switch (call->node->kind) {
    case STOW_KIND_CONV_2D_S8:
        stow_read_filter_s8(&filter, call, STOW_CONV_2D_S8_OUTPUT_ZERO_POINT);
        stow_fast_pack_matrix(set, room, to, &filter, (size_t)w->out_c, (size_t)w->kernel_h,
                              (size_t)w->kernel_w * (size_t)w->in_c, SIZE_MAX);
        break;
    case STOW_KIND_DEPTHWISE_CONV_2D_S8:
        stow_read_filter_s8(&filter, call, STOW_DEPTHWISE_CONV_2D_S8_OUTPUT_ZERO_POINT);
        stow_fast_pack_depthwise(set, room, to, &filter, (size_t)w->out_c, (size_t)w->kernel_h * (size_t)w->kernel_w);
        break;
    default:
        stow_read_filter_s8(&filter, call, STOW_FULLY_CONNECTED_S8_OUTPUT_ZERO_POINT);
        stow_fast_pack_matrix(set, room, to, &filter, (size_t)call->params[STOW_FULLY_CONNECTED_S8_OUTPUTS], 1,
                              (size_t)call->params[STOW_FULLY_CONNECTED_S8_FEATURES], stow_fast_vectors(call));
    }
}

static void stow_fast_prepare_f32(const stow_fast_set *set, stow_fast_room *room, stow_fast_filter *to,
                                  const stow_call *call, const stow_window *w)
{
    stow_filter_f32 filter;
    const size_t taps = (size_t)w->kernel_h * (size_t)w->kernel_w, in_c = (size_t)w->in_c, out_c = (size_t)w->out_c;
    if (call->node->kind == STOW_KIND_CONV_2D_F32) {
        stow_read_filter_f32(&filter, call, STOW_CONV_2D_F32_ACT_MIN);
        stow_fast_pack_floats(set, room, to, &filter, out_c, taps * in_c, 1, taps * in_c, 0);
        to->rows = (size_t)w->kernel_h;
        to->units = (size_t)w->kernel_w * in_c;
    } else if (call->node->kind == STOW_KIND_DEPTHWISE_CONV_2D_F32) {
        stow_read_filter_f32(&filter, call, STOW_DEPTHWISE_CONV_2D_F32_ACT_MIN);
        stow_fast_pack_floats(set, room, to, &filter, out_c, taps, out_c, 1, out_c / stow_fast_divisor(out_c, set->lanes));
        to->units = taps;
    } else {
        const size_t features = (size_t)call->params[STOW_FULLY_CONNECTED_F32_FEATURES];
        stow_read_filter_f32(&filter, call, STOW_FULLY_CONNECTED_F32_ACT_MIN);
        stow_fast_pack_floats(set, room, to, &filter, (size_t)call->params[STOW_FULLY_CONNECTED_F32_OUTPUTS], features, 1,
                              features, 0);
        to->rows = 1;
        to->units = features;
    }
}

/* Bytes of lines that a node needs, 0 when none of the kernels here can run it; reads its window, if it has one. */
static size_t stow_fast_lines_of(const stow_fast_set *set, const stow_call *call, stow_window *w)
{
    switch (call->node->kind) {
    case STOW_KIND_CONV_2D_S8:
    case STOW_KIND_CONV_2D_F32:
        stow_read_window(w, call->params);
        return w->dilation_w == 1 && w->kernel_h <= (int32_t)STOW_FAST_TAPS
                   ? ((size_t)w->kernel_h + 1) * stow_fast_line_bytes(set, stow_fast_conv_line(w))
                   : 0;
    case STOW_KIND_DEPTHWISE_CONV_2D_S8:
    case STOW_KIND_DEPTHWISE_CONV_2D_F32:
        stow_read_window(w, call->params);
        return w->in_c == w->out_c && (int64_t)w->kernel_h * w->kernel_w <= (int64_t)STOW_FAST_TAPS
                   ? ((size_t)w->kernel_h + 1) * (size_t)w->stride_w *
                         stow_fast_line_bytes(set, stow_fast_depthwise_phase(w))
                   : 0;
    case STOW_KIND_FULLY_CONNECTED_S8:
    case STOW_KIND_FULLY_CONNECTED_F32:
        return stow_fast_line_bytes(set, STOW_FAST_BATCH * (size_t)call->params[STOW_FULLY_CONNECTED_S8_FEATURES]);
    default: return 0;
    }
}

static int stow_fast_is_float(uint32_t kind)
{
    return kind == STOW_KIND_CONV_2D_F32 || kind == STOW_KIND_DEPTHWISE_CONV_2D_F32 ||
           kind == STOW_KIND_FULLY_CONNECTED_F32;
}

/* Whether a fully connected node's vectors and their outputs are rows. */
static int stow_fast_is_by_row(const stow_call *call, const stow_fast_node *node)
{
    const size_t features = (size_t)call->params[STOW_FULLY_CONNECTED_S8_FEATURES];
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    return in.row_bytes == features * node->set->given && result.row_bytes == node->filter.outputs * node->set->given;
}

/* Prepare one node if there is a kernel for it; return the bytes of lines that it needs. */
static size_t stow_fast_prepare_node(const stow_fast_set *set, stow_fast_room *room, stow_fast_node *to,
                                     const stow_call *call)
{
    stow_window w = {0};
    if (call->node->kind == STOW_KIND_ADD_S8 && room->base != NULL) {
        to->sum = stow_fast_find_sum(call->params);
    }
    const int is_float = stow_fast_is_float(call->node->kind);
    to->set = is_float ? set->floats : set;
    const size_t lines = stow_fast_lines_of(to->set, call, &w);
    if (lines == 0 || call->node->block != STOW_NOTHING_16) {
        return 0; /* weights of a block are packed, and lie in the arena only while they are used */
    }
    (is_float ? stow_fast_prepare_f32 : stow_fast_prepare_s8)(to->set, room, &to->filter, call, &w);
    to->by_row = w.kernel_h == 0 && stow_fast_is_by_row(call, to);
    return lines;
}

/* Lay everything out in a block of memory, or measure it. */
static void stow_fast_lay_out(stow_fast *fast, const stow_context *context, const stow_fast_set *set, uint8_t *base)
{
    const stow_plan *plan = context->plan;
    stow_fast_room room = {base, 0};
    size_t lines = STOW_FAST_LEAST;
    (void)stow_fast_take(&room, sizeof *fast);
    fast->set = set;
    fast->nodes = stow_fast_take(&room, plan->node_count * sizeof *fast->nodes);
    for (uint32_t i = 0; i < plan->node_count; i++) {
        const stow_node *node = &plan->nodes[i];
        const stow_call call = {plan, node, plan->params + node->first_param, context, 0, 0};
        stow_fast_node none, *to = base == NULL ? &none : &fast->nodes[i];
        memset(to, 0, sizeof *to);
        const size_t bytes = stow_fast_prepare_node(set, &room, to, &call);
        lines = bytes > lines ? bytes : lines;
    }
    fast->scratch = stow_fast_take(&room, lines);
    fast->scratch_bytes = lines;
    fast->bytes = room.used;
}

/* Bytes that preparing a bound context takes with the set of this name, at a multiple of 64; 0 when it cannot run. */
size_t stow_host_prepare_bytes(const stow_context *context, const char *name)
{
    const stow_fast_set *set = stow_fast_find(name);
    stow_fast fast;
    if (set == NULL) {
        return 0;
    }
    stow_fast_lay_out(&fast, context, set, NULL);
    return fast.bytes;
}

/* Prepare in memory of that many bytes; the context uses it from now on. Returns the set's name. */
const char *stow_host_prepare(stow_context *context, const char *name, void *memory)
{
    const stow_fast_set *set = stow_fast_find(name);
    stow_fast_lay_out(memory, context, set, memory);
    context->prepared = memory;
    return set->name;
}

STOW_API int stow_run_prepared(const stow_call *call, uint32_t node)
{
    const stow_fast *fast = call->context->prepared;
    if (fast == NULL) {
        return 0;
    }
    const stow_fast_node *own = &fast->nodes[node];
    if (call->node->kind == STOW_KIND_ADD_S8) {
        return stow_fast_add(fast, call, own);
    }
    if (own->filter.weights == NULL) {
        return 0;
    }
    switch (call->node->kind) {
    case STOW_KIND_CONV_2D_S8:
    case STOW_KIND_CONV_2D_F32: return stow_fast_conv(fast, call, own);
    case STOW_KIND_DEPTHWISE_CONV_2D_S8:
    case STOW_KIND_DEPTHWISE_CONV_2D_F32: return stow_fast_depthwise(fast, call, own);
    default: return stow_fast_dense(fast, call, own);
    }
}
