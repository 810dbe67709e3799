# The guest of mirror-power-cuts.py: says what it finds on its disk, then what it has made durable.
# A version is a boot and a number, and all lines have 64 bytes.
bad() { echo "bad $*"; }
ack() { echo "ack $*"; }

if test -z "$boot"; then
    stty -F /dev/ttyS1 -echo
    # Saved here, continued here: what was sent before it is continued is lost.
    until read -t 1 fs boot kept < /dev/ttyS1; do echo asks; done
    insmod /modules/virtio_blk
fi
disk=/dev/vda
until test -b $disk; do usleep 10000; done
# Without this a guest on qemu-storage-daemon never flushes, and loses what it was promised.
echo write back > /sys/block/vda/cache_type
grep -q back /sys/block/vda/queue/write_cache || bad "no write cache"
mkdir m
if test $boot = 100; then
    mkfs.$fs -q $disk > log 2>&1 || bad "mkfs: $(cat log)"
fi
echo mounting
mount -t $fs $disk m 2> log || bad "mount: $(cat log; dmesg | tail -5)"
cat m/slots m/name-??? 2> /dev/null | uniq -c | sed 's/^ */have /'
for tail in m/tail-*; do
    test -e $tail && awk -v boot=${tail#*-} '$2 != boot || $4 != 1000001 + good { exit } { good++ }
        END { print "have 1 tail", boot, boot, 1000000 + good }' $tail
done
umount m
case $fs in
    ext4) e2fsck -fn $disk > log 2>&1 ;;
    xfs) xfs_repair -n $disk > log 2>&1 ;;
esac || bad "fsck: $(cat log)"
mount -t $fs $disk m
test -e m/slots || awk -v boot=$boot 'BEGIN {
    for (slot = 100; slot < 164; slot++) for (line = 0; line < 64; line++)
        printf "slot %d %d 1000000 %s\n", slot, boot, ".........................................."
}' > m/slots
sync
dmesg | grep -E 'I/O error|EXT4-fs (error|warning)|[Cc]orrupt' > log && bad "$(cat log)"
echo go

pad=$(printf '%042d' 0 | tr 0 .)
line() { line="$1 $2 $boot $i $pad
"; }
block() {
    line $1 $2
    block=$line$line; block=$block$block; block=$block$block
    block=$block$block; block=$block$block; block=$block$block
}
put() { echo -n "$block" | dd of=$1 bs=4096 seek=$2 conv=notrunc,fsync 2> /dev/null || bad "write $1"; }

# Overwritten in place.
(i=1000000; while i=$((i + 1)); do
    slot=$((i * 37 % 64))
    block slot $((100 + slot)); put m/slots $slot; ack slot $((100 + slot)) $boot $i
done) &
# Appended.
(i=1000000; while i=$((i + 1)); do
    line tail $boot
    echo -n "$line" | dd of=m/tail-$boot bs=64 seek=$((i - 1000001)) conv=notrunc,fsync 2> /dev/null \
        || bad "append"
    ack tail $boot $boot $i
done) &
# Replaced.
(i=1000000; while i=$((i + 1)); do
    name=$((100 + i % 8))
    block name $name; put m/new 0; mv m/new m/name-$name; sync m; ack name $name $boot $i
done) &
# fio reads back what it wrote in an earlier boot, and what it writes.
keep() {
    fio --name=keep --filename=m/keep-$1 --bs=16k --size=1M --verify=crc32c $2 $3 $4 \
        --output-format=terse > fio.log 2>&1 || bad "fio keep-$1: $(cat fio.log)"
}
(if test $kept != 0; then keep $kept --rw=read; fi
keep $boot --rw=write --do_verify=0 --end_fsync=1; sync m; ack keep 100 $boot 1000000) &
fio --name=load --filename=m/load --size=8M --direct=1 --ioengine=libaio --iodepth=4 --rw=randrw \
    --bsrange=4k-32k --rate_iops=40,40 --time_based --runtime=900 --verify=crc32c --verify_fatal=1 \
    --verify_backlog=32 --output-format=terse > load.log 2>&1
bad "fio load: $(cat load.log)"
