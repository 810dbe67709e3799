//! Ports: the serial line, PCI's registers, and the end.

use core::arch::asm;
use core::fmt::{self, Write};

/// Write a byte to a port.
pub fn out8(port: u16, value: u8) {
    // SAFETY: the ports that are named here are those of the devices that the loader owns.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value) }
}

/// Write two bytes to a port.
pub fn out16(port: u16, value: u16) {
    // SAFETY: as above.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value) }
}

/// Write four bytes to a port.
pub fn out32(port: u16, value: u32) {
    // SAFETY: as above.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value) }
}

/// Read a byte from a port.
pub fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: reading the ports of these devices changes nothing that is relied on.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value) }
    value
}

/// Read two bytes from a port.
pub fn in16(port: u16) -> u16 {
    let value;
    // SAFETY: as above.
    unsafe { asm!("in ax, dx", in("dx") port, out("ax") value) }
    value
}

/// Read four bytes from a port.
pub fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: as above.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value) }
    value
}

/// The first serial line, and QEMU's debug console beside it.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const LINE: u16 = 0x3f8;
        for byte in text.bytes() {
            // A line that is not there reads as all ones.
            while in8(LINE + 5) & 0x20 == 0 {}
            out8(LINE, byte);
            out8(0xe9, byte);
        }
        Ok(())
    }
}

/// A register of a device's PCI configuration on bus 0.
pub fn pci(device: u32, register: u32) -> u32 {
    out32(0xcf8, 1 << 31 | device << 11 | register);
    in32(0xcfc)
}

/// Write one.
pub fn set_pci(device: u32, register: u32, value: u32) {
    out32(0xcf8, 1 << 31 | device << 11 | register);
    out32(0xcfc, value);
}

/// Stop for good, and end a virtual machine that has QEMU's exit device.
pub fn stop() -> ! {
    out8(0xf4, 0x21);
    loop {
        // SAFETY: it waits; interrupts are off.
        unsafe { asm!("cli", "hlt") }
    }
}
