# The way in, by PVH or by multiboot.
#
# 32 bits, no paging, EBX has the address of the start information, and by multiboot EAX says so.
# The first 4 GiB are mapped where they are, by pages of 2 MiB, and the processor goes to 64 bits
# with SSE and without interrupts.

.section .note.pvh, "a", @note
    .long 4, 4, 18
    .asciz "Xen"
    .long start

# Without its magic number: QEMU, which looks for that first, would not start a program of 64 bits.
# `boot/build` makes a second file with it, for GRUB. Multiboot Specification 0.6.96, section 3.1:
# flags (modules at pages, memory map, video mode), checksum, five addresses that an ELF file does
# not need, and a mode of text.
.section .multiboot, "a"
.balign 4
    .asciz "blocklab multiboot header"
.balign 4
    .long 0, 7, -(0x1badb002 + 7), 0, 0, 0, 0, 0, 1, 80, 25, 0

.text
.code32
.globl start
start:
    cli
    movl $stack_top, %esp
    movl %eax, %ebp
    # Top table, its first entry, and four tables of large pages.
    movl $map_second, %eax
    orl $3, %eax
    movl %eax, map_top
    movl $map_first, %eax
    orl $3, %eax
    movl $map_second, %edi
    movl $4, %ecx
1:  movl %eax, (%edi)
    addl $4096, %eax
    addl $8, %edi
    loop 1b
    movl $map_first, %edi
    movl $0x83, %eax
    movl $2048, %ecx
2:  movl %eax, (%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 2b
    movl $map_top, %eax
    movl %eax, %cr3
    # PAE, PGE, OSFXSR, OSXMMEXCPT.
    movl %cr4, %eax
    orl $0x6a0, %eax
    movl %eax, %cr4
    # EFER: SCE, LME, NXE. The kernel's tables have pages that are not executed.
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x901, %eax
    wrmsr
    # PG, MP, PE; no EM.
    movl %cr0, %eax
    andl $0xfffffffb, %eax
    orl $0x80000003, %eax
    movl %eax, %cr0
    lgdt descriptors
    ljmp $0x10, $long
.code64
long:
    movl $0x18, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl %ebx, %edi
    movl %ebp, %esi
    call loader_main
3:  hlt
    jmp 3b

.data
.balign 16
segments:
    .quad 0, 0x00cf9b000000ffff, 0x00af9b000000ffff, 0x00cf93000000ffff
descriptors:
    .word 31
    .long segments

.bss
.balign 4096
map_top: .skip 4096
map_second: .skip 4096
map_first: .skip 16384
# A header is 2.5 KiB, a page 4, and there are some of each.
.skip 32768
stack_top:
