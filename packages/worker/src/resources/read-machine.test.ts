import { describe, expect, it } from 'vitest'
import { fakeFiles } from '../../test/fake-files.ts'
import { parseMeminfo, parseProcCgroup, readCgroupLimits } from './read-machine.ts'

describe('readCgroupLimits', () => {
  it.each([
    ['no cgroups at all', {}, [null, null, null]],
    [
      'version 2 in a container',
      {
        '/proc/self/cgroup': '0::/\n',
        '/sys/fs/cgroup/cpu.max': '250000 100000\n',
        '/sys/fs/cgroup/memory.max': '1000000\n',
        '/sys/fs/cgroup/memory.current': '700000\n',
        '/sys/fs/cgroup/memory.stat': 'anon 1\ninactive_file 300000\nactive_file 5\n',
      },
      [2, 1000000, 600000],
    ],
    [
      'version 2 without limits',
      {
        '/proc/self/cgroup': '0::/a.slice',
        '/sys/fs/cgroup/a.slice/cpu.max': 'max 100000\n',
        '/sys/fs/cgroup/a.slice/memory.max': 'max\n',
      },
      [null, null, null],
    ],
    [
      'the tightest of a service and the slice above it',
      {
        '/proc/self/cgroup': '0::/muster.slice/worker.service',
        '/sys/fs/cgroup/muster.slice/memory.max': '500',
        '/sys/fs/cgroup/muster.slice/memory.current': '450',
        '/sys/fs/cgroup/muster.slice/cpu.max': '400000 100000',
        '/sys/fs/cgroup/muster.slice/worker.service/memory.max': '1000',
        '/sys/fs/cgroup/muster.slice/worker.service/memory.current': '10',
        '/sys/fs/cgroup/muster.slice/worker.service/cpu.max': '50000 100000',
      },
      [1, 500, 50],
    ],
    [
      'version 1 in a container, where the path is the host’s',
      {
        '/proc/self/cgroup': '4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n',
        '/sys/fs/cgroup/memory/memory.limit_in_bytes': '2000',
        '/sys/fs/cgroup/memory/memory.usage_in_bytes': '1500',
        '/sys/fs/cgroup/memory/memory.stat': 'cache 9\ntotal_inactive_file 500\n',
        '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '300000',
        '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000',
      },
      [3, 2000, 1000],
    ],
    [
      'version 1 without limits',
      {
        '/proc/self/cgroup': '4:memory:/\n3:cpu:/\n',
        '/sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712',
        '/sys/fs/cgroup/memory/memory.usage_in_bytes': '1500',
        '/sys/fs/cgroup/cpu/cpu.cfs_quota_us': '-1',
        '/sys/fs/cgroup/cpu/cpu.cfs_period_us': '100000',
      },
      [null, null, null],
    ],
    [
      'usage above the limit, which leaves nothing',
      { '/proc/self/cgroup': '0::/', '/sys/fs/cgroup/memory.max': '100', '/sys/fs/cgroup/memory.current': '150' },
      [null, 100, 0],
    ],
  ])('reads %s', async (_, files, [cpus, memoryBytes, memoryLeftBytes]) => {
    expect(await readCgroupLimits(fakeFiles({ files }))).toEqual({ cpus, memoryBytes, memoryLeftBytes })
  })
})

describe('parseProcCgroup', () => {
  it('keeps a path with colons and does not confuse controllers', () => {
    expect(parseProcCgroup('7:cpuset:/x\n4:memory:/a:b\n2:cpuacct,cpu:/c\n0::/d\n')).toEqual({ unified: '/d', memory: '/a:b', cpu: '/c' })
  })
})

it.each([
  [
    'both figures',
    'MemTotal:       16384 kB\nMemFree:          100 kB\nMemAvailable:    8192 kB\nSwapTotal: 9 kB\n',
    16384 * 1024,
    8192 * 1024,
  ],
  ['F16 no MemAvailable (an old kernel)', 'MemTotal:       16384 kB\nMemFree:          100 kB\n', 16384 * 1024, null],
  ['F16 more available than there is', 'MemTotal: 10 kB\nMemAvailable: 11 kB\n', 10 * 1024, null],
  ['F16 no numbers', 'MemTotal: many kB\nMemAvailable: -5 kB\n', null, null],
  ['F16 nothing', '', null, null],
])('reads %s', (_, text, totalBytes, availableBytes) => {
  expect(parseMeminfo(text)).toEqual({ totalBytes, availableBytes })
})
