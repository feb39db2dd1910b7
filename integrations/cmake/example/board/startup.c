/* From reset to main: vectors, memory, floating point; the C library's semihosting prints and ends the emulator. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t stack_top[], data_load[], data_start[], data_end[], bss_start[], bss_end[];
extern void initialise_monitor_handles(void);
extern int main(void);

static volatile uint32_t *const access_control = (volatile uint32_t *)0xE000ED88u;

__attribute__((noreturn)) void reset(void)
{
    *access_control |= 0xFu << 20; /* the floating-point unit is off after reset */
    __asm volatile("dsb\n\tisb" ::: "memory");
    for (uint32_t *from = data_load, *to = data_start; to < data_end;)
        *to++ = *from++;
    for (uint32_t *to = bss_start; to < bss_end;)
        *to++ = 0;
    initialise_monitor_handles();
    exit(main());
}

static void fault(void)
{
    _Exit(99);
}

/* The C library calls these around main. */
void _init(void) {}
void _fini(void) {}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_top, reset, fault, fault, fault, fault, fault,
};
