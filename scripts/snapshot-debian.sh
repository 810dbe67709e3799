#!/bin/sh
# A Debian with systemd suspends itself to a partition and comes back from the EFI system partition of
# its own disk, by UEFI, in QEMU; the second time the loader lets the firmware go on.
#
#   blocklab boot root && scripts/snapshot-debian.sh VMLINUZ [TAR]
#
# VMLINUZ lies in an unpacked package, with its modules. TAR is a root file system [default: what
# `blocklab boot root` made]. Needs root for its device files, and qemu-system-x86, ovmf, mtools,
# e2fsprogs, fdisk, cpio, busybox-static.
set -eu

kernel=$(realpath "${1:?usage: snapshot-debian.sh VMLINUZ [TAR]}")
tar=$(realpath "${2:-${XDG_CACHE_HOME:-$HOME/.cache}/blocklab/root/debian-bookworm.tar}")
blocklab=$(realpath "$(dirname "$0")/../target/debug/blocklab")
modules=$(dirname "$kernel")/../lib/modules/${kernel##*/vmlinuz-}/kernel
modules=$(realpath "$modules")
firmware=/usr/share/ovmf/OVMF.fd
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$blocklab" snapshot tools tools > /dev/null
mkdir root
tar -C root -xf "$tar"
cp tools/blocklab-guest root/usr/local/bin/
echo '/dev/vda2 / ext4 rw 0 1' > root/etc/fstab
cat > root/etc/systemd/system/snapshot.service << 'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=journal+console
StandardError=journal+console
ExecStart=/usr/local/bin/snapshot
UNIT
ln -s ../snapshot.service root/etc/systemd/system/multi-user.target.wants/
cat > root/usr/local/bin/snapshot << 'SCRIPT'
#!/bin/sh
# 20 MiB that only memory has, and a file that is open over the suspend.
exec 3> /var/open
echo before >&3
dd if=/dev/urandom of=/dev/shm/random bs=1M count=20 2> /dev/null
sha1sum /dev/shm/random > /dev/shm/sum
/usr/local/bin/blocklab-guest suspend /dev/vda3 || exit 1
sha1sum --quiet -c /dev/shm/sum && systemctl is-active dbus > /dev/null && echo came-back-whole
echo after >&3
systemctl poweroff
SCRIPT
chmod +x root/usr/local/bin/snapshot

# The boot partition with the loader, the root, and the partition for the image.
truncate -s 1800M disk
printf 'label: gpt\nsize=64M,type=U\nsize=700M,type=L\ntype=L\n' | /sbin/sfdisk -q disk
start=$(/sbin/sfdisk -o start -l -q disk | sed -n 3p | tr -d ' ')
/sbin/mke2fs -q -F -t ext4 -d root -E "offset=$((start * 512))" disk 700M
mformat -i disk@@1M -F -T 131072 ::
mmd -i disk@@1M ::/EFI ::/EFI/BOOT
mcopy -i disk@@1M tools/blocklab.efi ::/EFI/BOOT/BOOTX64.EFI

mkdir -p initrd/bin initrd/modules
cp /bin/busybox initrd/bin/
number=10
for name in drivers/virtio/virtio_ring drivers/virtio/virtio drivers/virtio/virtio_pci_legacy_dev \
    drivers/virtio/virtio_pci_modern_dev drivers/virtio/virtio_pci drivers/block/virtio_blk \
    crypto/crc32c_generic lib/crc16 fs/mbcache fs/jbd2/jbd2 fs/ext4/ext4; do
    [ ! -f "$modules/$name.ko" ] || cp "$modules/$name.ko" "initrd/modules/$number.ko"
    number=$((number + 1))
done
cat > initrd/init << 'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mkdir /proc /sys /dev /new
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in /modules/*; do $b insmod $module; done
$b mount -t ext4 /dev/vda2 /new || $b poweroff -f
for place in proc sys dev; do $b mount --move /$place /new/$place; done
exec $b switch_root /new /sbin/init
INIT
chmod +x initrd/init
(cd initrd && find . | cpio -o -H newc 2> /dev/null) > initrd.cpio

machine() {
    timeout "${limit:-300}" qemu-system-x86_64 -accel tcg -machine pc -cpu qemu64 -m 512 -smp 2 -nodefaults \
        -display none -vga none -nic none -no-reboot -serial stdio -bios "$firmware" \
        -drive file=disk,if=virtio,format=raw "$@" < /dev/null
}
expect() {
    grep -a -m 1 -o "$1.*" "$2" || { echo "$2: no \`$1\`; its end:"; tail -n 5 "$2"; exit 1; } >&2
}

machine -kernel "$kernel" -initrd initrd.cpio \
    -append 'console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check' > suspended
expect 'reboot: Power down' suspended
machine > resumed
expect 'blocklab-loader: .* pages' resumed
expect 'came-back-whole' resumed
/sbin/e2fsck -f -n "disk?offset=$((start * 512))" > /dev/null 2>&1
/sbin/debugfs -R 'cat /var/open' "disk?offset=$((start * 512))" 2> /dev/null | tr '\n' ' '
echo
# The image was used: the firmware goes on, here to its shell.
limit=45 machine > again 2>&1 || true
expect 'not resumed: .*' again
expect 'Shell>' again
