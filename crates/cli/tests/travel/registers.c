/* A program that keeps a pattern in floating-point registers while something happens, and ends with
 * 1 when it is not there after that. Each word of the command line is what happens. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A system call, and a byte written, with `pattern` in registers; what is in them then. */
static unsigned long held(unsigned long pattern, long call, long first, long second, volatile char *byte)
{
	unsigned long sum, more, control;
	unsigned int before = 0x1f80 | (pattern & 3) << 13, after = 0;

	__asm__ volatile(
		"ldmxcsr %[before]\n\t"
		"movq %[pattern], %%xmm0\n\t"
		"movq %[pattern], %%xmm7\n\t"
		"movq %[pattern], %%xmm15\n\t"
		"fldpi\n\t"
		"syscall\n\t"
		"movb $1, (%[byte])\n\t"
		"fldpi\n\t"
		"fcompp\n\t"
		"fnstsw %%ax\n\t"
		"movzwq %%ax, %[control]\n\t"
		"stmxcsr %[after]\n\t"
		"movq %%xmm0, %[sum]\n\t"
		"movq %%xmm7, %[more]\n\t"
		"xorq %[more], %[sum]\n\t"
		"movq %%xmm15, %[more]\n\t"
		"xorq %[more], %[sum]\n\t"
		: [sum] "=&r"(sum), [more] "=&r"(more), [control] "=&r"(control), [after] "+m"(after), "+a"(call)
		: [pattern] "r"(pattern), [before] "m"(before), "D"(first), "S"(second), [byte] "r"(byte)
		: "rcx", "r11", "memory", "xmm0", "xmm7", "xmm15");
	if ((control & 0x4000) == 0 || after != before)
		return ~pattern;
	return sum;
}

static char byte;

static void check(const char *what, unsigned long pattern, unsigned long found)
{
	if (found == pattern)
		return;
	printf("%s: %lx instead of %lx\n", what, found, pattern);
	exit(1);
}

/* Leaves nothing as it was. */
static void spoil(int number)
{
	(void)number;
	held(0xdead, SYS_getpid, 0, 0, &byte);
	__asm__ volatile("fninit");
}

static void *yields(void *pattern)
{
	for (int i = 0; i < 300; i++)
		check("yield", (unsigned long)pattern, held((unsigned long)pattern, SYS_sched_yield, 0, 0, &byte));
	return NULL;
}

static void happens(const char *what)
{
	unsigned long pattern = 0x123456789abcdef0;

	if (!strcmp(what, "yield")) {
		yields((void *)(pattern + (getpid() & 1)));
	} else if (!strcmp(what, "threads")) {
		pthread_t all[3];
		for (unsigned long i = 0; i < 3; i++)
			pthread_create(all + i, NULL, yields, (void *)(pattern + i));
		for (int i = 0; i < 3; i++)
			pthread_join(all[i], NULL);
	} else if (!strcmp(what, "signal")) {
		signal(SIGUSR1, spoil);
		for (int i = 0; i < 50; i++)
			check(what, pattern + i, held(pattern + i, SYS_kill, getpid(), SIGUSR1, &byte));
	} else if (!strcmp(what, "fault")) {
		char *pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (int i = 0; i < 256; i++)
			check(what, pattern + i, held(pattern + i, SYS_getppid, 0, 0, pages + i * 4096));
	} else if (!strcmp(what, "fork")) {
		for (int i = 0; i < 20; i++) {
			pid_t me = getpid();
			int status = 0;
			check(what, pattern + i, held(pattern + i, SYS_fork, 0, 0, &byte));
			if (getpid() != me) {
				spoil(0);
				exit(0);
			}
			check("wait", pattern, held(pattern, SYS_getpid, 0, 0, &byte));
			if (wait(&status) < 0 || status)
				exit(1);
		}
	} else {
		printf("%s: what is that?\n", what);
		exit(1);
	}
}

int main(int count, char **words)
{
	for (int i = 1; i < count; i++)
		happens(words[i]);
	puts("kept");
	return 0;
}
