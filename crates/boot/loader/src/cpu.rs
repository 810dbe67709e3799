//! The processor, and memory at physical addresses.

/// What of CR4 says that page tables have five levels.
pub const FIVE_LEVELS: u64 = 1 << 12;

/// The processor's clock.
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// EAX, EBX, ECX and EDX of a leaf.
pub fn cpuid(leaf: u32) -> [u32; 4] {
    let found = core::arch::x86_64::__cpuid_count(leaf, 0);
    [found.eax, found.ebx, found.ecx, found.edx]
}

/// Memory at physical addresses, which are mapped where they are. The loader owns the machine: what
/// it reads and writes is either its own, the firmware's tables, or a frame of the image.
pub mod memory {
    /// `bytes` bytes at `address`, for as long as nobody writes there.
    pub fn slice(address: u64, bytes: usize) -> &'static [u8] {
        // SAFETY: memory that is there and mapped; the callers write elsewhere while they look.
        unsafe { core::slice::from_raw_parts(address as *const u8, bytes) }
    }

    /// The same, to be written by nobody else.
    pub fn slice_mut(address: u64, bytes: usize) -> &'static mut [u8] {
        // SAFETY: memory that is there and mapped, in frames that were found free.
        unsafe { core::slice::from_raw_parts_mut(address as *mut u8, bytes) }
    }

    /// Write a word.
    pub fn set(address: u64, word: u64) {
        // SAFETY: memory that is there and mapped, in a frame that was found free.
        unsafe { (address as *mut u64).write_volatile(word) }
    }

    /// Fill `words` words.
    pub fn fill(address: u64, words: usize, word: u64) {
        // SAFETY: as above.
        let place = unsafe { core::slice::from_raw_parts_mut(address as *mut u64, words) };
        place.fill(word);
    }

    /// Write bytes.
    pub fn write(address: u64, bytes: &[u8]) {
        slice_mut(address, bytes.len()).copy_from_slice(bytes);
    }
}

/// The functions that the compiler calls for copies and comparisons.
mod compiler {
    use core::arch::asm;

    // SAFETY: the compiler knows the function by this name, and nothing else in the loader does.
    #[unsafe(no_mangle)]
    extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's: both are valid for `bytes` bytes and do not overlap.
        // By words: a copy by bytes is eight times as many steps where they are counted.
        unsafe {
            asm!(
                "rep movsq", "mov rcx, {rest}", "rep movsb",
                rest = in(reg) bytes % 8,
                inout("rcx") bytes / 8 => _,
                inout("rdi") to => _,
                inout("rsi") from => _,
            )
        }
        to
    }

    // SAFETY: the compiler knows the function by this name, and nothing else in the loader does.
    #[unsafe(no_mangle)]
    extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        if (to as usize).wrapping_sub(from as usize) >= bytes {
            return memcpy(to, from, bytes);
        }
        // SAFETY: the caller's: both are valid for `bytes` bytes; the last byte goes first.
        unsafe {
            asm!(
                "std", "rep movsb", "cld",
                inout("rcx") bytes => _,
                inout("rdi") to.wrapping_add(bytes).wrapping_sub(1) => _,
                inout("rsi") from.wrapping_add(bytes).wrapping_sub(1) => _,
            )
        }
        to
    }

    // SAFETY: the compiler knows the function by this name, and nothing else in the loader does.
    #[unsafe(no_mangle)]
    extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's: `to` is valid for `bytes` bytes.
        unsafe {
            asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") byte as u8)
        }
        to
    }

    // SAFETY: the compiler knows the function by this name, and nothing else in the loader does.
    #[unsafe(no_mangle)]
    extern "C" fn memcmp(left: *const u8, right: *const u8, bytes: usize) -> i32 {
        for at in 0..bytes {
            // SAFETY: the caller's: both are valid for `bytes` bytes.
            let both = unsafe { [left.add(at).read_volatile(), right.add(at).read_volatile()] };
            if both[0] != both[1] {
                return i32::from(both[0]) - i32::from(both[1]);
            }
        }
        0
    }

    // SAFETY: the compiler knows the function by this name, and nothing else in the loader does.
    #[unsafe(no_mangle)]
    extern "C" fn bcmp(left: *const u8, right: *const u8, bytes: usize) -> i32 {
        memcmp(left, right, bytes)
    }
}
