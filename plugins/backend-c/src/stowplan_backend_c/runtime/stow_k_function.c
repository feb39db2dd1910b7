/* Functions of each float by itself, and two of each run of floats: logarithm of softmax, normalization. */
#include "stow_function.h"
#include "stow_kernels.h"

#if STOW_WITH_FUNCTION_F32

/* In the order of UNARY_FLOAT in flow/operators.py. */
enum stow_functions {
    STOW_FUNCTION_TANH,
    STOW_FUNCTION_HARD_SWISH,
    STOW_FUNCTION_ABS,
    STOW_FUNCTION_NEG,
    STOW_FUNCTION_EXP,
    STOW_FUNCTION_LOG,
    STOW_FUNCTION_SQRT,
    STOW_FUNCTION_RSQRT,
    STOW_FUNCTION_SQUARE,
    STOW_FUNCTION_SIN,
    STOW_FUNCTION_COS,
    STOW_FUNCTION_FLOOR,
    STOW_FUNCTION_CEIL,
    STOW_FUNCTION_ROUND,
    STOW_FUNCTION_SIGN,
    STOW_FUNCTION_ELU,
    STOW_FUNCTION_GELU,
    STOW_FUNCTION_GELU_TANH,
    STOW_FUNCTION_ERF,
    STOW_FUNCTION_RECIPROCAL,
    STOW_FUNCTION_LEAKY_RELU,
    STOW_FUNCTION_HARD_SIGMOID,
    STOW_FUNCTION_SOFTPLUS,
    STOW_FUNCTIONS
};

static float stow_rounding_function(int32_t function, float x)
{
    switch (function) {
    case STOW_FUNCTION_FLOOR: return stow_floor(x);
    case STOW_FUNCTION_CEIL: return -stow_floor(-x);
    case STOW_FUNCTION_ROUND: return stow_round_even(x);
    case STOW_FUNCTION_SIGN: return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
    case STOW_FUNCTION_ABS: return stow_magnitude(x);
    default: return -x;
    }
}

static float stow_activation_function(int32_t function, float x, float alpha, float beta)
{
    switch (function) {
    case STOW_FUNCTION_TANH: return stow_tanh(x);
    case STOW_FUNCTION_HARD_SWISH: return x * stow_clamp_float(x + 3.0f, 0.0f, 6.0f) / 6.0f;
    case STOW_FUNCTION_ELU: return x > 0.0f ? x : stow_exp(x) - 1.0f;
    case STOW_FUNCTION_GELU: return 0.5f * x * (1.0f + stow_erf(x * 0.707106781f));
    case STOW_FUNCTION_GELU_TANH: return 0.5f * x * (1.0f + stow_tanh(0.797884561f * (x + 0.044715f * x * x * x)));
    case STOW_FUNCTION_LEAKY_RELU: return x >= 0.0f ? x : alpha * x;
    case STOW_FUNCTION_HARD_SIGMOID: return stow_clamp_float(alpha * x + beta, 0.0f, 1.0f);
    default: return x > 20.0f ? x : stow_log(1.0f + stow_exp(x));
    }
}

static float stow_function_of(int32_t function, float x, float alpha, float beta)
{
    switch (function) {
    case STOW_FUNCTION_EXP: return stow_exp(x);
    case STOW_FUNCTION_LOG: return stow_log(x);
    case STOW_FUNCTION_SQRT: return stow_sqrt(x);
    case STOW_FUNCTION_RSQRT: return 1.0f / stow_sqrt(x);
    case STOW_FUNCTION_SQUARE: return x * x;
    case STOW_FUNCTION_SIN: return stow_sine(x, 0);
    case STOW_FUNCTION_COS: return stow_sine(x, 1);
    case STOW_FUNCTION_ERF: return stow_erf(x);
    case STOW_FUNCTION_RECIPROCAL: return 1.0f / x;
    case STOW_FUNCTION_FLOOR:
    case STOW_FUNCTION_CEIL:
    case STOW_FUNCTION_ROUND:
    case STOW_FUNCTION_SIGN:
    case STOW_FUNCTION_ABS:
    case STOW_FUNCTION_NEG: return stow_rounding_function(function, x);
    default: return stow_activation_function(function, x, alpha, beta);
    }
}

STOW_API void stow_function_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const int32_t function = call->params[STOW_FUNCTION_F32_FUNCTION];
    const float alpha = stow_float(call->params[STOW_FUNCTION_F32_ALPHA]);
    const float beta = stow_float(call->params[STOW_FUNCTION_F32_BETA]);
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *x = (const float *)(const void *)stow_row(&in, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes / sizeof(float); i++) {
            out[i] = stow_function_of(function, x[i], alpha, beta);
        }
    }
}

STOW_API int stow_function_f32_check(const stow_facts *facts)
{
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return stow_is_plain(facts, 1, STOW_FUNCTION_F32_PARAMS) && in.rows == out.rows && in.row_bytes == out.row_bytes &&
           in.row_bytes % sizeof(float) == 0 && (uint32_t)facts->params[STOW_FUNCTION_F32_FUNCTION] < STOW_FUNCTIONS;
}

#endif

#if STOW_WITH_LOG_SOFTMAX_F32 || STOW_WITH_L2_NORMALIZATION_F32

_Static_assert(STOW_LOG_SOFTMAX_F32_DEPTH == 0 && STOW_L2_NORMALIZATION_F32_DEPTH == 0, "both have the same parameter");

static int stow_is_runs(const stow_facts *facts)
{
    const stow_form in = stow_operand_form(facts, 0), out = stow_result_form(facts);
    return stow_is_plain(facts, 1, 1) && in.rows == out.rows && in.row_bytes == out.row_bytes && facts->params[0] > 0 &&
           in.row_bytes % stow_size(facts->params[0], sizeof(float)) == 0;
}

#endif

#if STOW_WITH_LOG_SOFTMAX_F32

static void stow_log_softmax_one(const float *x, float *out, size_t depth)
{
    float most = x[0], sum = 0.0f;
    for (size_t i = 1; i < depth; i++) {
        most = x[i] > most ? x[i] : most;
    }
    for (size_t i = 0; i < depth; i++) {
        sum += stow_exp(x[i] - most);
    }
    const float rest = stow_log(sum);
    for (size_t i = 0; i < depth; i++) {
        out[i] = x[i] - most - rest;
    }
}

STOW_API void stow_log_softmax_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t depth = (size_t)call->params[STOW_LOG_SOFTMAX_F32_DEPTH];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *x = (const float *)(const void *)stow_row(&in, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t i = 0; i < in.row_bytes / sizeof(float); i += depth) {
            stow_log_softmax_one(x + i, out + i, depth);
        }
    }
}

STOW_API int stow_log_softmax_f32_check(const stow_facts *facts)
{
    return stow_is_runs(facts);
}

#endif

#if STOW_WITH_L2_NORMALIZATION_F32

STOW_API void stow_l2_normalization_f32_run(const stow_call *call)
{
    const stow_rows in = stow_operand(call, 0), result = stow_result(call);
    const size_t depth = (size_t)call->params[STOW_L2_NORMALIZATION_F32_DEPTH];
    for (uint32_t unit = call->first; unit < call->first + call->count; unit++) {
        const float *x = (const float *)(const void *)stow_row(&in, unit);
        float *out = (float *)(void *)stow_row(&result, unit);
        for (size_t run = 0; run < in.row_bytes / sizeof(float); run += depth) {
            float sum = 0.0f;
            for (size_t i = run; i < run + depth; i++) {
                sum += x[i] * x[i];
            }
            const float length = stow_sqrt(sum) > 1e-6f ? stow_sqrt(sum) : 1e-6f;
            for (size_t i = run; i < run + depth; i++) {
                out[i] = x[i] / length;
            }
        }
    }
}

STOW_API int stow_l2_normalization_f32_check(const stow_facts *facts)
{
    return stow_is_runs(facts);
}

#endif
