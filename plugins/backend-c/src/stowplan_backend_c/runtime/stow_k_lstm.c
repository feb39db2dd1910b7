/* Long short-term memory. The result holds the outputs of all steps, then the cell: a step reads the outputs of the
 * one before from there, and each output's cell only depends on that output's own, so no other memory is needed. */
#include "stow_element.h"
#include "stow_function.h"
#include "stow_gate.h"

#if STOW_WITH_LSTM_S8 || STOW_WITH_LSTM_S16 || STOW_WITH_LSTM_F32

_Static_assert((int)STOW_LSTM_S8_OUTPUTS == 3 && (int)STOW_LSTM_F32_OUTPUTS == 3, "both begin with the same sizes");
_Static_assert((int)STOW_LSTM_S16_SIGMOID == (int)STOW_LSTM_S8_SIGMOID, "both kinds have the same parameters");

enum stow_lstm_gates {
    STOW_GATE_INPUT,
    STOW_GATE_FORGET,
    STOW_GATE_CELL,
    STOW_GATE_OUTPUT,
    STOW_GATES
};

typedef struct stow_lstm {
    const stow_call *call;
    stow_rows x;
    stow_rows hidden;
    uint8_t *out;
    size_t batches, steps, features, outputs;
} stow_lstm;

static void stow_read_lstm(stow_lstm *op, const stow_call *call)
{
    const stow_rows result = stow_result(call);
    op->call = call;
    op->x = stow_operand(call, 0);
    op->hidden = stow_operand(call, 1);
    op->out = stow_row(&result, 0);
    op->batches = (size_t)call->params[0];
    op->steps = (size_t)call->params[1];
    op->features = (size_t)call->params[2];
    op->outputs = (size_t)call->params[3];
}

/* Sizes, and that the result is one row of all outputs and `cell_bytes` for each of the last step. */
static int stow_is_lstm(const stow_facts *facts, uint32_t params, uint32_t element_bytes, uint32_t cell_bytes)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 3, params) || !stow_all_at_least(facts, 0, STOW_LSTM_S8_OUTPUTS + 1, 1)) {
        return 0;
    }
    const int64_t state = stow_size(p[STOW_LSTM_S8_BATCHES], p[STOW_LSTM_S8_OUTPUTS]);
    const int64_t sequence = stow_size(stow_size(state, p[STOW_LSTM_S8_STEPS]), element_bytes);
    const int64_t inputs =
        stow_size(stow_size(p[STOW_LSTM_S8_BATCHES], p[STOW_LSTM_S8_STEPS]), p[STOW_LSTM_S8_FEATURES]);
    const stow_form out = stow_result_form(facts);
    return out.rows == 1 && sequence + stow_size(state, cell_bytes) == out.row_bytes &&
           stow_elements(stow_operand_form(facts, 0), element_bytes) == inputs &&
           stow_elements(stow_operand_form(facts, 1), element_bytes) == state &&
           stow_elements(stow_operand_form(facts, 2), cell_bytes) == state;
}

/* Bytes of all gates' weights for inputs of `size`. */
static int64_t stow_gate_weights(const int32_t *p, int64_t size)
{
    return stow_size(stow_size(p[STOW_LSTM_S8_OUTPUTS], size), STOW_GATES);
}

#endif

#if STOW_WITH_LSTM_S8 || STOW_WITH_LSTM_S16

/* Which of a gate's sums, of which output, from which elements on. */
typedef struct stow_gate_place {
    const stow_rows *last;
    size_t last_first, x_first, row;
    uint32_t gate;
} stow_gate_place;

static int32_t stow_product_s16(int32_t a, int32_t b, int32_t multiplier, int32_t shift)
{
    return stow_scale(a * b, multiplier, shift);
}

/* The new output of one cell from the sums of its gates; updates the cell. Without the output's zero point. */
static int32_t stow_lstm_turn(const stow_lstm *op, const int32_t *sums, uint8_t *cell)
{
    const int32_t *p = op->call->params;
    const uint16_t *table = stow_constant(op->call, p[STOW_LSTM_S8_SIGMOID]);
    int32_t gates[STOW_GATES];
    for (uint32_t gate = 0; gate < STOW_GATES; gate++) {
        const int64_t steps = (int64_t)sums[gate] * 3;
        gates[gate] = gate == STOW_GATE_CELL ? stow_tanh_s16(table, steps) : stow_sigmoid_s16(table, steps);
    }
    const int32_t before = (int32_t)stow_load_integer(cell, STOW_DTYPE_INT16);
    const int32_t kept = stow_saturate_s16(stow_product_s16(
        gates[STOW_GATE_FORGET], before, p[STOW_LSTM_S8_FORGET_MULTIPLIER], p[STOW_LSTM_S8_FORGET_SHIFT]));
    const int32_t fresh = stow_saturate_s16(stow_product_s16(
        gates[STOW_GATE_INPUT], gates[STOW_GATE_CELL], p[STOW_LSTM_S8_INPUT_MULTIPLIER], p[STOW_LSTM_S8_INPUT_SHIFT]));
    const int32_t clip = p[STOW_LSTM_S8_CLIP];
    int32_t now = stow_saturate_s16(kept + fresh);
    now = clip > 0 ? stow_clamp(now, -clip, clip) : now;
    stow_store_integer(cell, STOW_DTYPE_INT16, now);
    const int32_t bent = stow_tanh_s16(
        table, stow_gate_steps(now, p[STOW_LSTM_S8_CELL_MULTIPLIER], p[STOW_LSTM_S8_CELL_SHIFT]));
    return stow_product_s16(
        bent, gates[STOW_GATE_OUTPUT], p[STOW_LSTM_S8_HIDDEN_MULTIPLIER], p[STOW_LSTM_S8_HIDDEN_SHIFT]);
}

/* Where the weights of a gate's row begin, and its two factors. */
static const int8_t *stow_gate_row(const stow_lstm *op, int32_t constant, size_t row, size_t size)
{
    return (const int8_t *)stow_constant(op->call, constant) + row * size;
}

static const int32_t *stow_gate_factors(const stow_lstm *op, uint32_t gate)
{
    const int32_t *factors = stow_constant(op->call, op->call->params[STOW_LSTM_S8_GATE_FACTORS]);
    return factors + 4 * (size_t)gate;
}

/* The elements from which a step of one batch begins, and copies of the cells in the result. */
static stow_gate_place stow_lstm_begin(const stow_lstm *op, const stow_rows *result, size_t step)
{
    const int first = step % op->steps == 0;
    const stow_gate_place place = {first ? &op->hidden : result,
                                   first ? step / op->steps * op->outputs : (step - 1) * op->outputs,
                                   step * op->features, 0, 0};
    return place;
}

static uint8_t *stow_lstm_cells(const stow_lstm *op, size_t element_bytes)
{
    const stow_rows cell = stow_operand(op->call, 2);
    uint8_t *cells = op->out + op->batches * op->steps * op->outputs * element_bytes;
    for (size_t i = 0; i < op->batches * op->outputs; i++) {
        memcpy(cells + 2 * i, stow_element(&cell, i, 2), 2);
    }
    return cells;
}

/* An output of a step, not limited yet; `sum` is the gates' sum for the elements' width, and the cells are changed. */
static inline int32_t stow_lstm_output(const stow_lstm *op, stow_gate_place place, size_t output, uint8_t *its,
                                       int32_t (*sum)(const stow_lstm *, const stow_gate_place *))
{
    int32_t sums[STOW_GATES];
    for (uint32_t gate = 0; gate < STOW_GATES; gate++) {
        place.gate = gate;
        place.row = gate * op->outputs + output;
        sums[gate] = sum(op, &place);
    }
    return stow_wrap_add(stow_lstm_turn(op, sums, its), op->call->params[STOW_LSTM_S8_HIDDEN_ZERO_POINT]);
}

static int stow_is_integer_lstm(const stow_facts *facts, uint32_t params, uint32_t element_bytes, int64_t bias_bytes)
{
    const int32_t *p = facts->params;
    return stow_is_lstm(facts, params, element_bytes, 2) && p[STOW_LSTM_S8_CLIP] >= 0 &&
           p[STOW_LSTM_S8_CLIP] <= INT16_MAX && p[STOW_LSTM_S8_CELL_MULTIPLIER] > 0 &&
           p[STOW_LSTM_S8_CELL_MULTIPLIER] <= (3 << 15) && p[STOW_LSTM_S8_CELL_SHIFT] >= 0 &&
           p[STOW_LSTM_S8_CELL_SHIFT] < 31 &&
           stow_has_bytes(facts, p[STOW_LSTM_S8_X_WEIGHTS], stow_gate_weights(p, p[STOW_LSTM_S8_FEATURES])) &&
           stow_has_bytes(facts, p[STOW_LSTM_S8_H_WEIGHTS], stow_gate_weights(p, p[STOW_LSTM_S8_OUTPUTS])) &&
           stow_has_bytes(facts, p[STOW_LSTM_S8_BIAS], stow_gate_weights(p, bias_bytes)) &&
           stow_has_bytes(facts, p[STOW_LSTM_S8_GATE_FACTORS], STOW_GATES * 16) &&
           stow_has_bytes(facts, p[STOW_LSTM_S8_SIGMOID], 512);
}

#endif

#if STOW_WITH_LSTM_S8

/* A sum in the scale of gates: weights times elements from `first` on. */
static int32_t stow_gate_dot(const stow_rows *rows, size_t first, size_t count, int32_t zero_point, const int8_t *w)
{
    int32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const int32_t centred = stow_wrap_subtract(*(const int8_t *)stow_element(rows, first + i, 1), zero_point);
        sum = stow_wrap_add(sum, stow_wrap((uint32_t)centred * (uint32_t)(int32_t)w[i]));
    }
    return sum;
}

static int32_t stow_gate_s8(const stow_lstm *op, const stow_gate_place *at)
{
    const int32_t *p = op->call->params, *f = stow_gate_factors(op, at->gate);
    const int32_t *bias = stow_constant(op->call, p[STOW_LSTM_S8_BIAS]);
    const int32_t x = stow_gate_dot(&op->x, at->x_first, op->features, p[STOW_LSTM_S8_INPUT_ZERO_POINT],
                                    stow_gate_row(op, p[STOW_LSTM_S8_X_WEIGHTS], at->row, op->features));
    const int32_t h = stow_gate_dot(at->last, at->last_first, op->outputs, p[STOW_LSTM_S8_HIDDEN_ZERO_POINT],
                                    stow_gate_row(op, p[STOW_LSTM_S8_H_WEIGHTS], at->row, op->outputs));
    const int32_t from_x = stow_saturate_s16(stow_scale(stow_wrap_add(x, bias[at->row]), f[0], f[1]));
    return stow_saturate_s16(from_x + stow_saturate_s16(stow_scale(h, f[2], f[3])));
}

STOW_API void stow_lstm_s8_run(const stow_call *call)
{
    stow_lstm op;
    stow_read_lstm(&op, call);
    const stow_rows result = stow_result(call);
    uint8_t *cells = stow_lstm_cells(&op, 1);
    for (size_t step = 0; step < op.batches * op.steps; step++) {
        const stow_gate_place place = stow_lstm_begin(&op, &result, step);
        for (size_t output = 0; output < op.outputs; output++) {
            uint8_t *its = cells + 2 * (step / op.steps * op.outputs + output);
            const int32_t value = stow_lstm_output(&op, place, output, its, stow_gate_s8);
            op.out[step * op.outputs + output] = (uint8_t)(int8_t)stow_clamp(value, INT8_MIN, INT8_MAX);
        }
    }
}

STOW_API int stow_lstm_s8_check(const stow_facts *facts)
{
    return stow_is_integer_lstm(facts, STOW_LSTM_S8_PARAMS, 1, 4) &&
           stow_is_int8(facts->params[STOW_LSTM_S8_HIDDEN_ZERO_POINT]);
}

#endif

#if STOW_WITH_LSTM_S16

static int64_t stow_gate_dot_s16(const stow_rows *rows, size_t first, size_t count, int32_t zero_point, const int8_t *w)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const int64_t x = stow_load_integer(stow_element(rows, first + i, 2), STOW_DTYPE_INT16);
        sum += (uint64_t)((x - zero_point) * w[i]);
    }
    return (int64_t)sum;
}

static int32_t stow_gate_s16(const stow_lstm *op, const stow_gate_place *at)
{
    const int32_t *p = op->call->params, *f = stow_gate_factors(op, at->gate);
    const uint8_t *bias = (const uint8_t *)stow_constant(op->call, p[STOW_LSTM_S16_BIAS]) + 8 * at->row;
    const int64_t x = stow_gate_dot_s16(&op->x, at->x_first, op->features, p[STOW_LSTM_S16_INPUT_ZERO_POINT],
                                        stow_gate_row(op, p[STOW_LSTM_S16_X_WEIGHTS], at->row, op->features));
    const int64_t h = stow_gate_dot_s16(at->last, at->last_first, op->outputs, p[STOW_LSTM_S16_HIDDEN_ZERO_POINT],
                                        stow_gate_row(op, p[STOW_LSTM_S16_H_WEIGHTS], at->row, op->outputs));
    const uint64_t biased = (uint64_t)x + (uint64_t)stow_load_integer(bias, STOW_DTYPE_INT64);
    const int32_t from_x = stow_saturate_s16(stow_scale_wide((int64_t)biased, f[0], f[1]));
    return stow_saturate_s16(from_x + stow_saturate_s16(stow_scale_wide(h, f[2], f[3])));
}

STOW_API void stow_lstm_s16_run(const stow_call *call)
{
    stow_lstm op;
    stow_read_lstm(&op, call);
    const stow_rows result = stow_result(call);
    uint8_t *cells = stow_lstm_cells(&op, 2);
    for (size_t step = 0; step < op.batches * op.steps; step++) {
        const stow_gate_place place = stow_lstm_begin(&op, &result, step);
        for (size_t output = 0; output < op.outputs; output++) {
            uint8_t *its = cells + 2 * (step / op.steps * op.outputs + output);
            const int32_t value = stow_lstm_output(&op, place, output, its, stow_gate_s16);
            stow_store_integer(op.out + 2 * (step * op.outputs + output), STOW_DTYPE_INT16, stow_saturate_s16(value));
        }
    }
}

STOW_API int stow_lstm_s16_check(const stow_facts *facts)
{
    return stow_is_integer_lstm(facts, STOW_LSTM_S16_PARAMS, 2, 8);
}

#endif

#if STOW_WITH_LSTM_F32

static float stow_gate_f32(const stow_lstm *op, const stow_rows *last, size_t last_first, size_t x_first, uint32_t gate,
                           size_t output)
{
    const int32_t *p = op->call->params;
    const size_t row = gate * op->outputs + output;
    const float *wx = (const float *)stow_constant(op->call, p[STOW_LSTM_F32_X_WEIGHTS]) + row * op->features;
    const float *wh = (const float *)stow_constant(op->call, p[STOW_LSTM_F32_H_WEIGHTS]) + row * op->outputs;
    float sum = ((const float *)stow_constant(op->call, p[STOW_LSTM_F32_BIAS]))[row];
    for (size_t i = 0; i < op->features; i++) {
        sum += stow_float_at(&op->x, x_first + i) * wx[i];
    }
    for (size_t i = 0; i < op->outputs; i++) {
        sum += stow_float_at(last, last_first + i) * wh[i];
    }
    if (gate == STOW_GATE_CELL) {
        return stow_tanh(sum);
    }
    const float power = stow_exp(-stow_magnitude(sum));
    return sum >= 0.0f ? 1.0f / (1.0f + power) : power / (1.0f + power);
}

STOW_API void stow_lstm_f32_run(const stow_call *call)
{
    stow_lstm op;
    stow_read_lstm(&op, call);
    const stow_rows cell = stow_operand(call, 2), result = stow_result(call);
    const float clip = stow_float(call->params[STOW_LSTM_F32_CLIP]);
    float *out = (float *)(void *)op.out, *cells = out + op.batches * op.steps * op.outputs;
    for (size_t i = 0; i < op.batches * op.outputs; i++) {
        cells[i] = stow_float_at(&cell, i);
    }
    for (size_t step = 0; step < op.batches * op.steps; step++) {
        const size_t batch = step / op.steps;
        const int first = step % op.steps == 0;
        const stow_rows *last = first ? &op.hidden : &result;
        const size_t last_first = first ? batch * op.outputs : (step - 1) * op.outputs;
        for (size_t output = 0; output < op.outputs; output++) {
            float gates[STOW_GATES];
            for (uint32_t gate = 0; gate < STOW_GATES; gate++) {
                gates[gate] = stow_gate_f32(&op, last, last_first, step * op.features, gate, output);
            }
            float *its = cells + batch * op.outputs + output;
            const float now = gates[STOW_GATE_FORGET] * *its + gates[STOW_GATE_INPUT] * gates[STOW_GATE_CELL];
            *its = stow_clamp_float(now, -clip, clip);
            out[step * op.outputs + output] = gates[STOW_GATE_OUTPUT] * stow_tanh(*its);
        }
    }
}

STOW_API int stow_lstm_f32_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    return stow_is_lstm(facts, STOW_LSTM_F32_PARAMS, 4, 4) && stow_float(p[STOW_LSTM_F32_CLIP]) > 0.0f &&
           stow_has_bytes(facts, p[STOW_LSTM_F32_X_WEIGHTS], stow_size(stow_gate_weights(p, p[STOW_LSTM_F32_FEATURES]), 4)) &&
           stow_has_bytes(facts, p[STOW_LSTM_F32_H_WEIGHTS], stow_size(stow_gate_weights(p, p[STOW_LSTM_F32_OUTPUTS]), 4)) &&
           stow_has_bytes(facts, p[STOW_LSTM_F32_BIAS], stow_gate_weights(p, 4));
}

#endif
