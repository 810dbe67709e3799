# The way out, copied to a page that the image does not need. RDI: list of pairs (to, from) of
# pages, ended by all ones; RSI: page tables for the jump; RDX: the kernel's own; RCX: its code;
# R8: descriptors for LGDT there; R12: a stack there. Linux wants its tables in R9, its code
# segment (0x10) and data segment (0x18), and nothing else.
.text
.globl way_out
.globl way_out_end
way_out:
    cli
    movq %rdi, %r10
    movq %rdx, %r9
    movq %rcx, %r11
    lgdt (%r8)
    movq %r12, %rsp
    # EFER: SCE, NXE. The kernel's tables have pages that are not executed.
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x801, %eax
    wrmsr
    movq %rsi, %cr3
    movl $0x18, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    leaq 4f(%rip), %rax
    pushq $0x10
    pushq %rax
    lretq
4:  cld
5:  movq (%r10), %rdi
    cmpq $-1, %rdi
    je 6f
    movq 8(%r10), %rsi
    movl $512, %ecx
    rep movsq
    addq $16, %r10
    jmp 5b
6:  jmpq *%r11
way_out_end:
