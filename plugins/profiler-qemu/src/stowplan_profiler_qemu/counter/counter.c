/* A plugin of QEMU's: how many instructions ran between board_begin and board_end, and at each board_mark in between.
 *
 * -plugin FILE,begin=ADDRESS,end=ADDRESS,mark=ADDRESS,out=FILE, addresses in hexadecimal. Writes one number a line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interface.h"

QEMU_EXPORT int qemu_plugin_version = 1;

static uint64_t total, started;
static uint64_t begin_address = UINT64_MAX, end_address = UINT64_MAX, mark_address = UINT64_MAX;
static int counting;
static FILE *out;

static void counter_print(void)
{
    if (counting && out != NULL) {
        fprintf(out, "%" PRIu64 "\n", total - started);
    }
}

static void counter_begin(unsigned int cpu, void *unused)
{
    (void)cpu, (void)unused;
    started = total;
    counting = 1;
}

static void counter_mark(unsigned int cpu, void *unused)
{
    (void)cpu, (void)unused;
    counter_print();
}

static void counter_end(unsigned int cpu, void *unused)
{
    (void)cpu, (void)unused;
    counter_print();
    counting = 0;
}

static void counter_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        const uint64_t address = qemu_plugin_insn_vaddr(instruction);
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, QEMU_PLUGIN_INLINE_ADD_U64, &total, 1);
        if (address == begin_address) {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, counter_begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
        } else if (address == end_address) {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, counter_end, QEMU_PLUGIN_CB_NO_REGS, NULL);
        } else if (address == mark_address) {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, counter_mark, QEMU_PLUGIN_CB_NO_REGS, NULL);
        }
    }
}

static void counter_finished(qemu_plugin_id_t id, void *unused)
{
    (void)id, (void)unused;
    if (out != NULL) {
        fclose(out);
    }
}

static void counter_option(const char *option)
{
    const char *value = strchr(option, '=');
    if (value == NULL) {
        return;
    }
    const size_t length = (size_t)(value++ - option);
    if (length == 3 && strncmp(option, "out", length) == 0) {
        out = fopen(value, "w");
        return;
    }
    const uint64_t address = strtoull(value, NULL, 16);
    if (strncmp(option, "begin", length) == 0) {
        begin_address = address;
    } else if (strncmp(option, "end", length) == 0) {
        end_address = address;
    } else if (strncmp(option, "mark", length) == 0) {
        mark_address = address;
    }
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        counter_option(argv[i]);
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, counter_translated);
    qemu_plugin_register_atexit_cb(id, counter_finished, NULL);
    return 0;
}
