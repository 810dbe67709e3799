# A virtual machine's disks by vhost-user, in two lives of the machine, of which $life is one: what
# they are, data, flushes, trims, file systems, and that the second life finds what the first left.
size() { cat /sys/block/vd$1/size; }
if test $life = 2; then
    same "$(dd if=/dev/vda bs=4k count=1 2> /dev/null | head -c 6)" "life 1" "the first life's mark"
    mkdir -p m && mount -t ext4 /dev/vdb m || fail "the file system is gone"
    sha256sum < m/b | cmp - m/sum || fail "the files are gone"
    umount m
    fio --name=w --filename=/dev/vda --direct=1 --ioengine=libaio --rw=randwrite --bs=4k \
        --size=64M --offset=4M --iodepth=32 --time_based --runtime=60 --output-format=terse > fio.log 2>&1 &
    sleep 1
    # It ends in the middle of its work.
    exit 0
fi
same $(size a) 262144 "size"
same "$(cat /sys/block/vda/serial) $(cat /sys/block/vdc/serial)" "first third" serials
same "$(queue vda write_cache)" "write through" cache
same "$(queue vdc write_cache)" "write back" cache
same $(ls /sys/block/vda/mq | wc -l) 2 queues
test $(queue vda discard_max_bytes) -gt 0 || fail "no discards"
dd if=/dev/urandom of=x bs=1M count=4 2> /dev/null
dd if=x of=/dev/vda bs=1M oflag=direct 2> /dev/null || fail "it cannot be written"
dd if=/dev/vda of=y bs=64k count=64 iflag=direct 2> /dev/null && cmp x y || fail "other data"
verify /dev/vda
# A disk with a write cache, and the same write through it.
fio --name=f --filename=/dev/vdc --direct=1 --rw=write --bs=64k --size=1M --fsync=4 \
    --output-format=terse > fio.log || fail flushes
echo "write through" > /sys/block/vdc/queue/write_cache
fio --name=d --filename=/dev/vdc --direct=1 --sync=dsync --rw=write --bs=4k --size=16k \
    --output-format=terse > fio.log || fail dsync
fio --name=p --filename=/dev/vda --direct=1 --ioengine=libaio --rw=randrw --bs=4k --size=8M \
    --numjobs=2 --iodepth=16 --offset_increment=16M --verify=crc32c --output-format=terse > fio.log \
    || fail "two queues: $(cat fio.log)"
files /dev/vdb
mount -t ext4 /dev/vdb m && sha256sum < m/b > m/sum && umount m || fail "a last mount"
printf 'life 1' | dd of=/dev/vda bs=4k conv=notrunc 2> /dev/null; sync
