/* The host's own kernels around a set's inner loops: which lines of the input are brought, and where outputs go. */
#include "stow_fast.h"

/* Lines that were brought for earlier rows: slot s holds input row tags[s]. The one behind them is a row of padding. */
typedef struct stow_fast_lines {
    const stow_fast_set *set;
    const stow_window *window;
    const stow_rows *in;
    uint8_t *start;
    size_t phases;
    size_t phase_bytes;
    size_t slots;
    uint32_t tags[STOW_FAST_TAPS];
} stow_fast_lines;

size_t stow_fast_conv_line(const stow_window *w)
{
    const size_t read = (size_t)(w->out_w - 1) * (size_t)w->stride_w + (size_t)w->kernel_w;
    const size_t given = (size_t)w->pad_left + (size_t)w->in_w;
    return (read > given ? read : given) * (size_t)w->in_c;
}

size_t stow_fast_depthwise_phase(const stow_window *w)
{
    const size_t reach = (size_t)(w->kernel_w - 1) * (size_t)w->dilation_w / (size_t)w->stride_w + (size_t)w->out_w;
    const size_t given = ((size_t)w->pad_left + (size_t)w->in_w) / (size_t)w->stride_w + 1;
    return (reach > given ? reach : given) * (size_t)w->in_c;
}

/* Padding is the zero point, in the form of the set; lines of padding everywhere, and then rows are brought into them. */
static void stow_fast_blank(const stow_fast_lines *lines, int32_t zero_point)
{
    const size_t bytes = (lines->slots + 1) * lines->phases * lines->phase_bytes;
    if (lines->set->element == 1 || lines->set->floats == NULL) { /* a float has no zero point but 0 */
        memset(lines->start, (uint8_t)(zero_point + lines->set->bias), bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += sizeof(int16_t)) {
        const int16_t value = (int16_t)zero_point;
        memcpy(lines->start + i, &value, sizeof value);
    }
}

static void stow_fast_open(stow_fast_lines *lines, const stow_fast *fast, const stow_fast_set *set,
                           const stow_window *window, const stow_rows *in, size_t phases, size_t phase_elements,
                           int32_t zero_point)
{
    lines->set = set;
    lines->window = window;
    lines->in = in;
    lines->start = fast->scratch;
    lines->phases = phases;
    lines->phase_bytes = stow_fast_line_bytes(set, phase_elements);
    lines->slots = (size_t)window->kernel_h;
    memset(lines->tags, 0xFF, sizeof lines->tags);
    stow_fast_blank(lines, zero_point);
}

/* Column i of phase p is column i * phases + p of the input with its padding. */
static void stow_fast_bring(const stow_fast_lines *lines, uint8_t *to, const int8_t *row)
{
    const stow_window *w = lines->window;
    const size_t depth = (size_t)w->in_c, phases = lines->phases, pad = (size_t)w->pad_left;
    if (phases == 1) {
        lines->set->bring(to + pad * depth * lines->set->element, row, (size_t)w->in_w * depth, 1, 0);
        return;
    }
    for (size_t phase = 0; phase < phases; phase++, to += lines->phase_bytes) {
        const size_t first = pad > phase ? (pad - phase + phases - 1) / phases : 0;
        const size_t column = first * phases + phase - pad;
        if (column < (size_t)w->in_w) {
            const size_t count = ((size_t)w->in_w - column + phases - 1) / phases;
            lines->set->bring(to + first * depth * lines->set->element, row + column * depth * lines->set->given, depth, count,
                              phases * depth);
        }
    }
}

/* The line under one row of the kernel, brought now or still there. */
static const uint8_t *stow_fast_line(stow_fast_lines *lines, const stow_place *place, int32_t tap)
{
    const size_t slot_bytes = lines->phases * lines->phase_bytes;
    if (tap < place->taps.first || tap >= place->taps.last) {
        return lines->start + lines->slots * slot_bytes;
    }
    const uint32_t row = place->image_row + (uint32_t)(place->start + tap * lines->window->dilation_h);
    /* With gaps between taps, rows of one window could fall on one slot; then slots belong to taps. */
    const size_t slot = lines->window->dilation_h == 1 ? row % (uint32_t)lines->slots : (size_t)tap;
    uint8_t *line = lines->start + slot * slot_bytes;
    if (lines->tags[slot] != row) {
        lines->tags[slot] = row;
        stow_fast_bring(lines, line, (const int8_t *)stow_row(lines->in, row));
    }
    return line;
}

static int stow_fast_is_flat(const stow_window *w)
{
    return w->kernel_h == 1 && w->kernel_w == 1 && w->stride_h == 1 && w->stride_w == 1 && w->pad_top == 0 &&
           w->pad_left == 0 && w->out_h == w->in_h && w->out_w == w->in_w;
}

/* Every pixel by itself, and rows only a manner of speaking: as many at once as fit the scratch memory and have their
 * outputs one after another. */
static void stow_fast_conv_flat(const stow_fast *fast, const stow_call *call, const stow_fast_node *node,
                                const stow_window *w, const stow_rows *in)
{
    const stow_fast_set *set = node->set;
    const stow_rows result = stow_result(call);
    const size_t size = (size_t)w->in_w * (size_t)w->in_c, room = fast->scratch_bytes - STOW_FAST_SLACK;
    const uint8_t *line = fast->scratch;
    stow_fast_matrix op = {
        &node->filter, &line, 0, 1, (size_t)w->in_c * set->element, 0, NULL, (size_t)w->out_c * set->given,
    };
    const uint32_t last = call->first + call->count;
    for (uint32_t unit = call->first; unit < last;) {
        uint32_t count = 0;
        uint8_t *out = stow_row(&result, unit);
        do {
            set->bring(fast->scratch + count * size * set->element, (const int8_t *)stow_row(in, unit + count), size, 1, 0);
            count++;
        } while (unit + count < last && (count + 1) * size * set->element <= room &&
                 stow_row(&result, unit + count) == out + (size_t)count * result.row_bytes);
        op.pixels = count * (size_t)w->out_w;
        op.out = (int8_t *)out;
        set->matrix(&op);
        unit += count;
    }
}

int stow_fast_conv(const stow_fast *fast, const stow_call *call, const stow_fast_node *node)
{
    const stow_fast_set *set = node->set;
    const uint8_t *under[STOW_FAST_TAPS];
    stow_fast_lines lines;
    stow_window w;
    stow_read_window(&w, call->params);
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    if (stow_fast_is_flat(&w) && (size_t)w.in_c % set->unit == 0) {
        stow_fast_conv_flat(fast, call, node, &w, &in);
        return 1;
    }
    const int32_t zero_point = set->floats == NULL ? 0 : call->params[STOW_CONV_2D_S8_INPUT_ZERO_POINT];
    stow_fast_open(&lines, fast, set, &w, &in, 1, stow_fast_conv_line(&w), zero_point);
    stow_fast_matrix op = {
        .filter = &node->filter,
        .lines = under,
        .x_step = (size_t)w.stride_w * (size_t)w.in_c * set->element,
        .pixels = (size_t)w.out_w,
        .out_step = (size_t)w.out_c * set->given,
    };
    const int zero = zero_point + set->bias == 0; /* what padding is: its rows can be left out */
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const stow_place place = stow_place_of(&w, unit);
        op.first = zero ? (size_t)place.taps.first : 0;
        op.last = zero ? (size_t)place.taps.last : node->filter.rows;
        for (size_t tap = op.first; tap < op.last; tap++) {
            under[tap] = stow_fast_line(&lines, &place, (int32_t)tap);
        }
        op.out = (int8_t *)stow_row(&result, unit);
        set->matrix(&op);
    }
    return 1;
}

int stow_fast_depthwise(const stow_fast *fast, const stow_call *call, const stow_fast_node *node)
{
    const stow_fast_set *set = node->set;
    const uint8_t *under[STOW_FAST_TAPS + 4] = {NULL};
    stow_fast_lines lines;
    stow_window w;
    if (stow_accumulator(call) != NULL) {
        return 0;
    }
    stow_read_window(&w, call->params);
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int by_input = (call->node->flags & STOW_NODE_BY_INPUT) != 0;
    const uint32_t first = by_input ? 0 : call->first, last = by_input ? 1 : call->first + call->count;
    const size_t phases = (size_t)w.stride_w, column_bytes = (size_t)w.in_c * set->element;
    const int32_t zero_point = set->floats == NULL ? 0 : call->params[STOW_DEPTHWISE_CONV_2D_S8_INPUT_ZERO_POINT];
    stow_fast_open(&lines, fast, set, &w, &in, phases, stow_fast_depthwise_phase(&w), zero_point);
    for (uint32_t unit = first; unit < last; unit++) {
        const stow_place place = stow_place_of(&w, unit);
        size_t at = 0;
        for (int32_t tap = 0; tap < w.kernel_h; tap++) {
            const uint8_t *line = stow_fast_line(&lines, &place, tap);
            for (int32_t j = 0; j < w.kernel_w; j++) {
                const size_t column = (size_t)j * (size_t)w.dilation_w;
                under[at++] = line + column % phases * lines.phase_bytes + column / phases * column_bytes;
            }
        }
        for (; at < node->filter.units * set->unit; at++) {
            under[at] = under[0]; /* its weight is zero */
        }
        set->depthwise(&node->filter, under, (int8_t *)stow_row(&result, unit), (size_t)w.out_w * (size_t)w.out_c);
    }
    return 1;
}

/* Bring the elements of vector `number` from wherever its rows lie. */
static void stow_fast_vector(const stow_fast_set *set, const stow_rows *in, size_t number, size_t features, uint8_t *to)
{
    size_t left = features;
    const size_t row_size = in->row_bytes / set->given;
    for (size_t at = number * features; left > 0;) {
        const size_t in_row = at % row_size;
        const size_t run = row_size - in_row < left ? row_size - in_row : left;
        set->bring(to, (const int8_t *)stow_row(in, (uint32_t)(at / row_size)) + in_row * set->given, run, 1, 0);
        at += run, left -= run, to += run * set->element;
    }
}

/* One vector, which is a row, to outputs that are one: nothing to find out or divide. */
static void stow_fast_dense_row(const stow_fast *fast, const stow_call *call, const stow_fast_node *node)
{
    const stow_fast_set *set = node->set;
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const uint8_t *line = fast->scratch;
    const stow_fast_matrix op = {
        &node->filter, &line, 0, 1, 0, 1, (int8_t *)stow_row(&result, call->first), 0,
    };
    set->bring(fast->scratch, (const int8_t *)stow_row(&in, call->first), in.row_bytes / set->given, 1, 0);
    set->matrix(&op);
}

int stow_fast_dense(const stow_fast *fast, const stow_call *call, const stow_fast_node *node)
{
    if (node->by_row && call->count == 1) {
        stow_fast_dense_row(fast, call, node);
        return 1;
    }
    const stow_fast_set *set = node->set;
    const size_t outputs = node->filter.outputs;
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t features = (size_t)call->params[STOW_FULLY_CONNECTED_S8_FEATURES];
    if (result.row_bytes % (outputs * set->given) != 0) {
        return 0; /* the outputs of one vector are cut into rows */
    }
    const size_t in_row = result.row_bytes / (outputs * set->given);
    /* Between vectors there may be room that padding reads, but no other vector's elements are padding. */
    const size_t step = stow_fast_line_bytes(set, features) - STOW_FAST_SLACK;
    const size_t most = (fast->scratch_bytes - STOW_FAST_SLACK) / step;
    const uint8_t *line = fast->scratch;
    stow_fast_matrix op = {&node->filter, &line, 0, 1, step, 0, NULL, outputs * set->given};
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        for (size_t done = 0; done < in_row; done += op.pixels) {
            op.pixels = in_row - done < most ? in_row - done : most;
            for (size_t i = 0; i < op.pixels; i++) {
                stow_fast_vector(set, &in, unit * in_row + done + i, features, fast->scratch + i * step);
            }
            op.out = (int8_t *)stow_row(&result, unit) + done * op.out_step;
            set->matrix(&op);
        }
    }
    return 1;
}
