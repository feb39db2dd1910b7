/* The two halves of SVDF: memories that move on by one entry a run, and what their filters make of them. */
#include "stow_element.h"

#if STOW_WITH_SVDF_STATE || STOW_WITH_SVDF_OUTPUT

static int32_t stow_state_dtype(int32_t bytes)
{
    return bytes == 2 ? STOW_DTYPE_INT16 : STOW_DTYPE_INT8;
}

#endif

#if STOW_WITH_SVDF_STATE

/* The newest entry of a filter: features times weights, in the state's scale. */
static int64_t stow_svdf_newest(const stow_call *call, const stow_rows *in, size_t batch, size_t filter)
{
    const int32_t *p = call->params;
    const size_t features = (size_t)p[STOW_SVDF_STATE_FEATURES];
    const int8_t *w = (const int8_t *)stow_constant(call, p[STOW_SVDF_STATE_WEIGHTS]) + filter * features;
    int32_t sum = 0;
    for (size_t i = 0; i < features; i++) {
        const int32_t x = *(const int8_t *)stow_element(in, batch * features + i, 1);
        const int32_t centred = stow_wrap_subtract(x, p[STOW_SVDF_STATE_INPUT_ZERO_POINT]);
        sum = stow_wrap_add(sum, stow_wrap((uint32_t)centred * (uint32_t)(int32_t)w[i]));
    }
    const int32_t scaled = stow_scale(sum, p[STOW_SVDF_STATE_MULTIPLIER], p[STOW_SVDF_STATE_SHIFT]);
    return stow_saturate(scaled, stow_state_dtype(p[STOW_SVDF_STATE_STATE_BYTES]));
}

/* The result may lie where the state does: every entry comes from the one behind it. */
STOW_API void stow_svdf_state_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), state = stow_operand(call, 1), result = stow_result(call);
    const int32_t *p = call->params;
    const size_t size = (size_t)p[STOW_SVDF_STATE_STATE_BYTES], memory = (size_t)p[STOW_SVDF_STATE_MEMORY];
    const size_t filters = (size_t)p[STOW_SVDF_STATE_FILTERS], width = result.row_bytes / size;
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        uint8_t *out = stow_row(&result, unit);
        for (size_t i = 0; i < width; i++, out += size) {
            const size_t element = (size_t)unit * width + i;
            if (element % memory + 1 < memory) {
                memmove(out, stow_element(&state, element + 1, size), size);
            } else {
                const size_t number = element / memory;
                const int64_t newest = stow_svdf_newest(call, &in, number / filters, number % filters);
                stow_store_integer(out, stow_state_dtype(p[STOW_SVDF_STATE_STATE_BYTES]), newest);
            }
        }
    }
}

STOW_API int stow_svdf_state_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 2, STOW_SVDF_STATE_PARAMS) ||
        !stow_all_at_least(facts, STOW_SVDF_STATE_FEATURES, STOW_SVDF_STATE_STATE_BYTES, 1) ||
        (p[STOW_SVDF_STATE_STATE_BYTES] != 1 && p[STOW_SVDF_STATE_STATE_BYTES] != 2)) {
        return 0;
    }
    const uint32_t size = (uint32_t)p[STOW_SVDF_STATE_STATE_BYTES];
    const int64_t memories = stow_size(p[STOW_SVDF_STATE_FILTERS], p[STOW_SVDF_STATE_MEMORY]);
    const int64_t kept = stow_elements(stow_result_form(facts), size);
    return kept > 0 && kept % memories == 0 && stow_elements(stow_operand_form(facts, 1), size) == kept &&
           stow_elements(stow_operand_form(facts, 0), 1) == stow_size(kept / memories, p[STOW_SVDF_STATE_FEATURES]) &&
           stow_has_bytes(facts, p[STOW_SVDF_STATE_WEIGHTS],
                          stow_size(p[STOW_SVDF_STATE_FILTERS], p[STOW_SVDF_STATE_FEATURES]));
}

#endif

#if STOW_WITH_SVDF_OUTPUT

/* Memory times weights of one filter. */
static int32_t stow_svdf_filter(const stow_call *call, const stow_rows *state, size_t batch, size_t filter)
{
    const int32_t *p = call->params;
    const size_t size = (size_t)p[STOW_SVDF_OUTPUT_STATE_BYTES], memory = (size_t)p[STOW_SVDF_OUTPUT_MEMORY];
    const int32_t dtype = stow_state_dtype(p[STOW_SVDF_OUTPUT_STATE_BYTES]);
    const size_t first = (batch * (size_t)p[STOW_SVDF_OUTPUT_FILTERS] + filter) * memory;
    const uint8_t *w = (const uint8_t *)stow_constant(call, p[STOW_SVDF_OUTPUT_WEIGHTS]) + filter * memory * size;
    int32_t sum = 0;
    for (size_t m = 0; m < memory; m++) {
        const int32_t a = (int32_t)stow_load_integer(w + m * size, dtype);
        const int32_t b = (int32_t)stow_load_integer(stow_element(state, first + m, size), dtype);
        sum = stow_wrap_add(sum, stow_wrap((uint32_t)a * (uint32_t)b));
    }
    return sum;
}

STOW_API void stow_svdf_output_run(const stow_call *call)
{
    const stow_rows state = stow_operand(call, 0), result = stow_result(call);
    const int32_t *p = call->params;
    const size_t rank = (size_t)p[STOW_SVDF_OUTPUT_RANK], outputs = (size_t)p[STOW_SVDF_OUTPUT_FILTERS] / rank;
    const int32_t *bias = stow_constant(call, p[STOW_SVDF_OUTPUT_BIAS]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        int8_t *out = (int8_t *)stow_row(&result, unit);
        for (size_t i = 0; i < result.row_bytes; i++) {
            const size_t number = (size_t)unit * result.row_bytes + i, output = number % outputs;
            int32_t sum = bias == NULL ? 0 : bias[output];
            for (size_t r = 0; r < rank; r++) {
                sum = stow_wrap_add(sum, stow_svdf_filter(call, &state, number / outputs, output * rank + r));
            }
            const int32_t scaled = stow_scale(sum, p[STOW_SVDF_OUTPUT_MULTIPLIER], p[STOW_SVDF_OUTPUT_SHIFT]);
            const int32_t shifted = stow_wrap_add(scaled, p[STOW_SVDF_OUTPUT_OUTPUT_ZERO_POINT]);
            out[i] = (int8_t)stow_clamp(shifted, INT8_MIN, INT8_MAX);
        }
    }
}

STOW_API int stow_svdf_output_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 1, STOW_SVDF_OUTPUT_PARAMS) ||
        !stow_all_at_least(facts, STOW_SVDF_OUTPUT_FILTERS, STOW_SVDF_OUTPUT_STATE_BYTES, 1) ||
        (p[STOW_SVDF_OUTPUT_STATE_BYTES] != 1 && p[STOW_SVDF_OUTPUT_STATE_BYTES] != 2) ||
        p[STOW_SVDF_OUTPUT_FILTERS] % p[STOW_SVDF_OUTPUT_RANK] != 0) {
        return 0;
    }
    const uint32_t size = (uint32_t)p[STOW_SVDF_OUTPUT_STATE_BYTES];
    const int64_t memories = stow_size(p[STOW_SVDF_OUTPUT_FILTERS], p[STOW_SVDF_OUTPUT_MEMORY]);
    const int64_t outputs = p[STOW_SVDF_OUTPUT_FILTERS] / p[STOW_SVDF_OUTPUT_RANK];
    const int64_t kept = stow_elements(stow_operand_form(facts, 0), size);
    return kept > 0 && kept % memories == 0 &&
           stow_elements(stow_result_form(facts), 1) == stow_size(kept / memories, outputs) &&
           stow_has_bytes(facts, p[STOW_SVDF_OUTPUT_WEIGHTS], stow_size(memories, size)) &&
           (p[STOW_SVDF_OUTPUT_BIAS] == -1 || stow_has_bytes(facts, p[STOW_SVDF_OUTPUT_BIAS], outputs * 4));
}

#endif
