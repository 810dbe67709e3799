# The way out, copied to a page that the image does not need, below 4 GiB. RDI: list of pairs (to,
# from) of pages, ended by all ones; RSI: page tables for the jump, below 4 GiB; R13: CR4's bit for
# five levels of them, or 0; RDX: the kernel's own; RCX: its code; R8: descriptors for LGDT there;
# R12: a stack there. Linux wants its tables in R9, its code segment (0x10) and data segment (0x18),
# and nothing else.
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
    movl $0x18, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    leaq 4f(%rip), %rbx
    movq %cr4, %rdx
    xorl %r13d, %edx
    testl $0x1000, %edx
    jnz 1f
    movq %rsi, %cr3
    pushq $0x10
    pushq %rbx
    lretq
    # The number of levels changes only without paging, which is for 32 bits.
1:  pushq %r9
    pushq %r10
    pushq %r11
    pushq $0x08
    leaq 2f(%rip), %rax
    pushq %rax
    lretq
.code32
2:  movl %cr0, %eax
    andl $0x7fffffff, %eax
    movl %eax, %cr0
    movl %esi, %cr3
    movl %cr4, %eax
    xorl $0x1000, %eax
    movl %eax, %cr4
    movl %cr0, %eax
    orl $0x80000000, %eax
    movl %eax, %cr0
    leal 3f-4f(%ebx), %ebx
    pushl $0x10
    pushl %ebx
    lretl
.code64
3:  movl %esp, %esp
    popq %r11
    popq %r10
    popq %r9
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
