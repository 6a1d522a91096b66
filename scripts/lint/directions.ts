// The allowed import directions. import-direction.ts enforces them.
// All entries that match a file apply to it. Tests are free.

export interface Direction {
  /** Files the entry is about, as globs from the root of the repository. */
  readonly from: readonly string[]
  readonly except?: readonly string[]
  /** Imports it forbids. Files are globs from the root, packages are named as in the import. */
  readonly never?: readonly string[]
  /** Imports from outside the package that it allows; all others are forbidden. */
  readonly only?: readonly string[]
  /** With `static`, types and `import()` are allowed all the same. */
  readonly kind?: 'static'
  /** Ends the sentence "… may not be imported here: …". */
  readonly because: string
}

export const tests = ['**/*.test.{ts,tsx}', 'packages/*/test/**', 'tests/**', 'vitest.config.ts']

/** Files that decide and do nothing else; .oxlintrc.json says what else is not for them. */
const pure = ['packages/protocol/src/states/**', 'packages/*/src/**/{decide,choose,machine,step}.ts', 'packages/*/src/**/*.pure.ts']

export const directions: readonly Direction[] = [
  {
    from: ['packages/protocol/src/**'],
    only: ['zod'],
    because: 'protocol is what two processes agree on; it runs in the browser too, so it is zod and nothing else',
  },
  {
    from: pure,
    only: ['zod', '@muster/protocol'],
    because: 'this file decides and does nothing else, so that it can be tested as a table; hand it what it needs as values',
  },
  {
    from: ['packages/host/src/**'],
    never: ['@muster/!(protocol)'],
    because: 'host is below everything that runs on a machine; it knows protocol only',
  },
  {
    from: ['packages/bus/src/**'],
    never: ['@muster/!(protocol|host)'],
    because: 'the bus carries messages and knows neither who sends them nor who acts on them',
  },
  {
    from: ['packages/source/src/**'],
    never: ['@muster/!(protocol|host)', '{pg,kysely}{,/**}'],
    because: 'source knows where backends come from, and not who asks: worker, controller and command line all do',
  },
  {
    from: ['packages/source/src/!(outbound)/**'],
    never: ['node:{http,https,http2,net,tls,dns,dgram}{,/**}'],
    because: 'outbound is the only way out: it checks every address before it connects, and every redirect',
  },
  {
    from: ['packages/**'],
    except: ['packages/bus/src/nats/**', 'packages/testkit/**'],
    never: ['@nats-io/!(nkeys)'],
    because: 'only bus/src/nats speaks NATS; everything else uses the Bus interface, which has a second implementation',
  },
  {
    from: ['packages/**'],
    except: ['packages/bus/src/nats/**', 'packages/host/src/**', 'packages/testkit/**'],
    never: ['@nats-io/nkeys'],
    because: 'keys are made and checked in host',
  },
  {
    from: ['packages/worker/src/**'],
    never: ['@muster/!(protocol|host|bus|source)', '{pg,kysely}{,/**}'],
    because: 'a worker must not be able to reach the database; it learns everything by joining',
  },
  {
    from: ['packages/worker/src/storage/**'],
    never: ['packages/worker/src/!(storage)/**'],
    because: 'storage is at the bottom of a worker: it knows blobs and trees, not the code that installs them',
  },
  {
    from: ['packages/worker/src/resources/**'],
    never: ['packages/worker/src/!(resources)/**'],
    because: 'resources reads the machine and knows nothing else of a worker',
  },
  {
    from: ['packages/worker/src/controllers/**'],
    never: ['packages/worker/src/!(controllers)/**'],
    because: 'controllers is the client of the controllers and knows none of its callers',
  },
  {
    from: ['packages/worker/src/work/**'],
    never: ['packages/worker/src/!(work)/**'],
    because: 'work is what operations and supervisor share: the registry, events and progress; it knows neither of them',
  },
  {
    from: ['packages/worker/src/drivers/**'],
    never: ['packages/worker/src/!(drivers|storage)/**'],
    because: 'a driver knows a protocol of engines, not processes, replicas or the bus',
  },
  {
    from: ['packages/worker/src/operations/**'],
    never: ['packages/worker/src/!(operations|work)/**'],
    because: 'operations decide what runs and in which order; the installer that does it is handed to them',
  },
  {
    from: ['packages/worker/src/installer/**'],
    never: [
      'packages/worker/src/{commands,drivers,gateway,membership,models,resources,supervisor}/**',
      'packages/worker/src/operations/!(installer.ts)',
    ],
    because: 'the installer implements operations/installer.ts with storage; stopping processes is handed to it',
  },
  {
    from: ['packages/worker/src/models/**'],
    never: [
      'packages/worker/src/{commands,drivers,gateway,membership,operations,resources,supervisor}/**',
      'packages/worker/src/installer/!(builtin-source.ts)',
    ],
    because: 'models keeps the files of models; it knows neither the processes nor the requests that need them',
  },
  {
    from: ['packages/worker/src/supervisor/**'],
    never: ['packages/worker/src/!(supervisor|drivers|models|storage|work)/**'],
    because: 'the supervisor runs processes; installs, requests and the bus are the business of others',
  },
  {
    from: ['packages/worker/src/gateway/**'],
    never: ['packages/worker/src/!(gateway|models|supervisor)/**'],
    because: 'the gateway serves replicas, logs and model files, and changes nothing',
  },
  {
    from: ['packages/worker/src/membership/**'],
    never: ['packages/worker/src/!(membership|controllers|resources)/**'],
    because: 'membership joins the cluster and connects the bus; the work of the node is handed to it',
  },
  {
    from: ['packages/worker/src/commands/**'],
    never: ['packages/worker/src/!(commands|operations|supervisor|work)/**'],
    because: 'a command handler parses, calls operations or supervisor, and replies',
  },
  {
    from: ['packages/worker/src/*/**'],
    never: ['packages/worker/src/{assemble,presence}.ts'],
    because: 'assemble and presence put the parts of a worker together; no part knows them',
  },
  {
    from: ['packages/controller/src/**'],
    never: ['@muster/!(protocol|host|bus|source)'],
    because: 'a controller talks to workers over the bus and to clients over HTTP, never in its own process',
  },
  {
    from: ['packages/**'],
    except: ['packages/controller/src/{store,postgres}/**', 'packages/testkit/**'],
    never: ['{pg,kysely}{,/**}'],
    because: 'every query stands in controller/src/store, so that what the database promises can be read in one place',
  },
  {
    from: ['packages/controller/src/{store,postgres}/**'],
    never: ['packages/controller/src/!(store|postgres)/**', '@muster/bus'],
    because: 'the store is at the bottom: it knows rows, not who asks for them',
  },
  {
    from: ['packages/controller/src/work/**'],
    never: ['packages/controller/src/!(work|store)/**'],
    because: 'work carries out every kind of work; a kind supplies its store, decision and commands, and is not known here',
  },
  {
    from: ['packages/controller/src/!(http)/**'],
    never: ['packages/controller/src/http/**', '{hono,@hono/*}{,/**}'],
    because: 'http is at the top: what it calls must work without a request',
  },
  {
    from: ['packages/*/src/**'],
    except: ['packages/*/src/{main,index}.ts'],
    never: ['packages/*/src/{main,index}.ts'],
    because: "main and index are a package's outside; inside it, import the file that has what you need",
  },
  {
    from: ['packages/cli/src/**'],
    except: ['packages/cli/src/{serve,pack,explain,galleries,localai}/**'],
    never: ['@muster/!(protocol|host)'],
    because:
      'a client command needs nothing but the HTTP API; only serve, pack, explain, galleries and localai do work in their own process',
  },
  {
    from: ['packages/cli/src/{serve,pack}/**'],
    kind: 'static',
    never: ['@muster/!(protocol|host)'],
    because: 'every command loads this file and has to start fast: load what does the work with import(), when it runs',
  },
  {
    from: ['packages/web/src/**'],
    never: ['@muster/!(protocol)', 'node:{*,*/**}'],
    because: 'the web app runs in a browser and knows the HTTP API only',
  },
  {
    from: ['packages/**', 'scripts/**', 'bench/**'],
    except: ['packages/testkit/**', 'bench/**'],
    never: ['@muster/testkit'],
    because: 'what ships knows nothing of tests',
  },
  {
    from: ['packages/**'],
    except: [
      'packages/controller/src/postgres/**',
      'packages/controller/src/page/page-build.ts',
      'packages/host/src/process-identity.ts',
      'packages/worker/src/{supervisor,resources}/**',
      'packages/worker/src/storage/unpack/sync.ts',
      'packages/testkit/**',
    ],
    never: ['node:child_process'],
    because: 'programs are started in few places, each of which knows how to end them again',
  },
  {
    from: ['**'],
    never: ['node:process'],
    because: 'use the global `process`, for which there are rules of their own',
  },
]
