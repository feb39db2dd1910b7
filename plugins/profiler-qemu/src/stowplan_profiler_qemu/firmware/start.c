/* What comes before main: memory initialised and painted, faults reported, unaligned access made a fault. */
#include "board.h"

extern uint32_t board_data_load[], board_data_start[], board_data_end[], board_bss_start[], board_bss_end[];

#if !defined(__riscv)
#define BOARD_CPACR (*(volatile uint32_t *)0xe000ed88u)
#define BOARD_CCR (*(volatile uint32_t *)0xe000ed14u)
#define BOARD_SHCSR (*(volatile uint32_t *)0xe000ed24u)
#define BOARD_CFSR (*(volatile uint32_t *)0xe000ed28u)
#endif

void board_paint(uint32_t *from, const uint32_t *to)
{
    while (from < to) {
        *(volatile uint32_t *)from = BOARD_PAINT;
        from++;
    }
}

size_t board_untouched(const uint32_t *from, const uint32_t *to)
{
    const uint32_t *at = from;
    while (at < to && *(const volatile uint32_t *)at == BOARD_PAINT) {
        at++;
    }
    return (size_t)((const uint8_t *)at - (const uint8_t *)from);
}

__attribute__((noinline)) void board_begin(void)
{
    __asm volatile("nop");
}

__attribute__((noinline)) void board_end(void)
{
    __asm volatile("nop");
}

__attribute__((noinline)) void board_mark(void)
{
    __asm volatile("nop");
}

__attribute__((noreturn, used)) void board_start(void)
{
#if !defined(__riscv)
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    BOARD_CPACR |= UINT32_C(15) << 20; /* floating point and vector units on */
    __asm volatile("dsb\n\tisb" ::: "memory");
#endif
    BOARD_CCR |= UINT32_C(3) << 3;    /* unaligned access and division by zero are faults */
    BOARD_SHCSR |= UINT32_C(7) << 16; /* each kind of fault has its own handler */
#endif
    for (uint32_t *from = board_data_load, *to = board_data_start; to < board_data_end;) {
        *to++ = *from++;
    }
    for (uint32_t *at = board_bss_start; at < board_bss_end;) {
        *(volatile uint32_t *)at++ = 0;
    }
    board_paint(board_fast_start, board_fast_end);
    board_paint(board_slow_start, board_slow_end);
    board_fence();
    board_exit(board_main());
}

#if defined(__riscv)

__attribute__((noreturn, used)) static void board_trap(void)
{
    board_say("fault: trap\n");
    board_exit(99);
}

__attribute__((naked, noreturn, section(".vectors"), used)) void board_reset(void)
{
    __asm volatile("la sp, board_stack_top\nla t0, board_trap\ncsrw mtvec, t0\nj board_start");
}

void board_fence(void)
{
}

#else

__attribute__((naked, noreturn)) void board_reset(void)
{
#if __ARM_ARCH >= 8 && defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
    __asm volatile("ldr r0, =board_stack_limit\n\tmsr msplim, r0");
#endif
    __asm volatile("ldr r0, =board_stack_top\n\tmov sp, r0\n\tldr r0, =board_start\n\tbx r0\n\t.ltorg");
}

static void board_fault(const char *kind)
{
    char digits[] = "00000000\n";
    for (int i = 0; i < 8; i++) {
        digits[i] = "0123456789abcdef"[BOARD_CFSR >> (28 - 4 * i) & 15u];
    }
    board_say("fault: ");
    board_say(kind);
    board_say(digits);
    board_exit(99);
}

static void board_hard(void)
{
    board_fault("hard fault, status ");
}

static void board_memory(void)
{
    board_fault("memory outside its bounds, status ");
}

static void board_usage(void)
{
    board_fault("unaligned access or an undefined instruction, status ");
}

static void board_other(void)
{
    board_fault("unexpected exception, status ");
}

typedef void (*board_vector)(void);
__attribute__((section(".vectors"), used)) const board_vector board_vectors[16] = {
    (board_vector)(uintptr_t)board_stack_top, board_reset, board_other, board_hard, board_memory, board_other,
    board_usage, board_other, board_other, board_other, board_other, board_other, board_other, board_other,
    board_other, board_other,
};

#define BOARD_MPU_CTRL (*(volatile uint32_t *)0xe000ed94u)
#define BOARD_MPU_RNR (*(volatile uint32_t *)0xe000ed98u)
#define BOARD_MPU_RBAR (*(volatile uint32_t *)0xe000ed9cu)
#define BOARD_MPU_RASR (*(volatile uint32_t *)0xe000eda0u)

/* Let nobody write to the BOARD_FENCE_BYTES at `start`. */
static void board_fence_at(uint32_t region, uintptr_t start)
{
    BOARD_MPU_RNR = region;
#if __ARM_ARCH >= 8
    BOARD_MPU_RBAR = (uint32_t)start | 2u << 1 | 1u;          /* read-only, and no code */
    BOARD_MPU_RASR = (uint32_t)(start & ~(uintptr_t)31) | 1u; /* RLAR: the same 32 bytes */
#else
    BOARD_MPU_RBAR = (uint32_t)start;
    BOARD_MPU_RASR = UINT32_C(1) << 28 | 4u << 1 | 1u; /* no access at all, and no code; 2^(4+1) bytes */
#endif
}

void board_fence(void)
{
    board_fence_at(0, (uintptr_t)board_fast_start - BOARD_FENCE_BYTES);
    board_fence_at(1, (uintptr_t)board_fast_end);
    board_fence_at(2, (uintptr_t)board_slow_start - BOARD_FENCE_BYTES);
    board_fence_at(3, (uintptr_t)board_slow_end);
    BOARD_MPU_CTRL = 5; /* on, all other memory as without it */
    __asm volatile("dsb\n\tisb" ::: "memory");
}

#endif
