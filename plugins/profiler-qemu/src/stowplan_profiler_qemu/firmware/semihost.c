/* Files, text and exit through semihosting: a trap that the emulator (or a debugger) answers. */
#include "board.h"

#define SYS_OPEN 0x01u
#define SYS_CLOSE 0x02u
#define SYS_WRITE0 0x04u
#define SYS_WRITE 0x05u
#define SYS_READ 0x06u
#define SYS_SEEK 0x0au
#define SYS_EXIT_EXTENDED 0x20u
#define APPLICATION_EXIT 0x20026u
#define MODE_READ 1u
#define MODE_WRITE 5u

#if defined(__riscv)
/* Three instructions in one page, none of them compressed: that is how the emulator knows the trap. */
__attribute__((naked, noinline, aligned(16))) static intptr_t board_call(uintptr_t call, const volatile void *block)
{
    (void)call;
    (void)block;
    __asm volatile(".option push\n.option norvc\nslli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\nret\n.option pop");
}
#else
static intptr_t board_call(uintptr_t call, const volatile void *block)
{
    register uintptr_t r0 __asm("r0") = call;
    register const volatile void *r1 __asm("r1") = block;
    __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory", "cc");
    return (intptr_t)r0;
}
#endif

static intptr_t board_open_as(const char *path, uintptr_t mode)
{
    size_t length = 0;
    while (path[length] != 0) {
        length++;
    }
    volatile uintptr_t block[3] = {(uintptr_t)path, mode, length};
    return board_call(SYS_OPEN, block);
}

static int board_transfer(uintptr_t call, const char *path, uintptr_t mode, uintptr_t data, size_t size)
{
    const intptr_t handle = board_open_as(path, mode);
    if (handle < 0) {
        return 0;
    }
    volatile uintptr_t block[3] = {(uintptr_t)handle, data, size};
    const intptr_t left = size > 0 ? board_call(call, block) : 0;
    volatile uintptr_t close[1] = {(uintptr_t)handle};
    board_call(SYS_CLOSE, close);
    return left == 0;
}

int board_read(const char *path, void *data, size_t size)
{
    return board_transfer(SYS_READ, path, MODE_READ, (uintptr_t)data, size);
}

int board_write(const char *path, const void *data, size_t size)
{
    return board_transfer(SYS_WRITE, path, MODE_WRITE, (uintptr_t)data, size);
}

intptr_t board_open(const char *path)
{
    return board_open_as(path, MODE_READ);
}

int board_next(intptr_t handle, void *data, size_t size)
{
    volatile uintptr_t block[3] = {(uintptr_t)handle, (uintptr_t)data, size};
    return board_call(SYS_READ, block) == 0;
}

int board_rewind(intptr_t handle)
{
    volatile uintptr_t block[2] = {(uintptr_t)handle, 0};
    return board_call(SYS_SEEK, block) == 0;
}

void board_say(const char *text)
{
    board_call(SYS_WRITE0, text);
}

void board_exit(int code)
{
    volatile uintptr_t block[2] = {APPLICATION_EXIT, (uintptr_t)code};
    board_call(SYS_EXIT_EXTENDED, block);
    for (;;) {
    }
}
