# The way out: back to 32 bits without paging, as the kernel's PVH entry expects.

.text
.code64
.globl enter_kernel
# EDI: where to; ESI: the start information.
enter_kernel:
    movl %esi, %ebx
    movl %edi, %esi
    pushq $0x8
    pushq $narrow
    lretq
.code32
narrow:
    movl %cr0, %eax
    andl $0x7fffffff, %eax
    movl %eax, %cr0
    movl $0xc0000080, %ecx
    xorl %eax, %eax
    xorl %edx, %edx
    wrmsr
    movl %eax, %cr4
    jmp *%esi
.code64
