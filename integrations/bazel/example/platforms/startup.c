/* What a Cortex-M3 does before main(): memory is set up, and the result goes to the host by semihosting. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t stack_top, data_load, data_begin, data_end, bss_begin, bss_end;
extern void initialise_monitor_handles(void);
extern int main(void);

void reset(void)
{
    const uint32_t *from = &data_load;
    for (uint32_t *to = &data_begin; to < &data_end; to++) {
        *to = *from++;
    }
    for (uint32_t *to = &bss_begin; to < &bss_end; to++) {
        *to = 0;
    }
    initialise_monitor_handles();
    exit(main());
}

/* A fault ends the test at once; what hangs would only be noticed at its time limit. */
static void fault(void)
{
    abort();
}

/* newlib calls them around constructors; there are none. */
void _init(void) {}
void _fini(void) {}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void)) & stack_top, reset, fault, fault, fault, fault, fault,
};
