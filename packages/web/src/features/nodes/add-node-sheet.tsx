// What to run on a machine to make it a node, and, once that was run, the door to let it in.
import { useQuery } from '@tanstack/react-query'
import { joinTokenRoutes } from '@muster/protocol'
import { ApiFailure, call } from '../../api/client.ts'
import { keys, nodesQuery } from '../../api/queries.ts'
import { CopyBlock } from '../../components/copy.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Failed, Loaded } from '../../components/loaded.tsx'
import { useNow } from '../../components/time.tsx'
import { formatDuration, isLoopback } from '../../format.ts'
import { ApproveButton } from './node-actions.tsx'
import { NodeStatusMark } from './node-status.tsx'

/** Made when the sheet opens and forgotten when it closes. `static`: nothing that happens meanwhile makes another one. */
const joinTokenQuery = {
  queryKey: keys.joinToken,
  queryFn: () => call(joinTokenRoutes.create),
  staleTime: 'static',
  gcTime: 0,
  retry: false,
} as const

export function AddNodeSheet({ onClose }: { readonly onClose: () => void }) {
  const made = useQuery(joinTokenQuery)
  const isLocal = made.error instanceof ApiFailure && made.error.code === 'bus_is_local'
  return (
    <Dialog title="Add a node" place="sheet" onClose={onClose}>
      {isLocal ? (
        <LocalBus message={made.error?.message ?? ''} />
      ) : made.error !== null ? (
        <Failed title="Can’t make a join token." error={made.error} onRetry={() => void made.refetch()} />
      ) : (
        <Loaded query={made} what="a join token">
          {(token) => <Commands {...token} />}
        </Loaded>
      )}
    </Dialog>
  )
}

interface Made {
  readonly token: string
  readonly url: string
  readonly expires_at: string
}

function Commands(made: Made) {
  return (
    <>
      <p>Run this on the machine to add:</p>
      <CopyBlock label="the command" text={joinCommand(made)} />
      <Validity until={made.expires_at} />
      {isLoopback(new URL(made.url).hostname) && (
        <p className="text-wait">
          This controller listens on its own machine only ({made.url}). For others to join, start it with <code>--host 0.0.0.0</code>, or
          with <code>--public-url</code> behind a proxy.
        </p>
      )}
      <details>
        <summary>Muster is not on that machine yet?</summary>
        <div className="flex flex-col gap-2 pt-2">
          <p>It needs Node 20 or newer and npm. Clone Muster there, from where this one came from, and run it in the clone:</p>
          <CopyBlock label="the command in a clone" text={joinCommand({ ...made, isClone: true })} />
        </div>
      </details>
      <Arrived since={made.expires_at} />
    </>
  )
}

function Validity({ until }: { readonly until: string }) {
  const left = Date.parse(until) - useNow()
  return (
    <p className="text-soft">
      {left > 0
        ? `The token in it is shown once and is valid for ${formatDuration(left)}. The machine then waits here for your approval.`
        : 'The token in it is not valid any more. Close this and open it again for another one.'}
    </p>
  )
}

const validMs = 3_600_000

/** Nodes that came since the token was made. */
function Arrived({ since }: { readonly since: string }) {
  const nodes = useQuery(nodesQuery).data ?? []
  const made = Date.parse(since) - validMs
  const arrived = nodes.filter(({ created_at: at }) => Date.parse(at) >= made)
  return (
    <section aria-label="Arrived" aria-live="polite" className="flex min-h-16 flex-col gap-2 border-t pt-3">
      {arrived.length === 0 ? (
        <p className="text-soft">Nothing has arrived yet; it appears here by itself.</p>
      ) : (
        arrived.map((node) => (
          <div key={node.id} className="flex items-start justify-between gap-3">
            <span className="min-w-0 flex-1 font-medium [overflow-wrap:anywhere]">{node.name}</span>
            <NodeStatusMark node={node} />
            {node.status === 'pending' && <ApproveButton node={node} />}
          </div>
        ))
      )}
    </section>
  )
}

function LocalBus({ message }: { readonly message: string }) {
  return (
    <>
      <p>Other machines can’t join this controller as it runs now: {message}</p>
      <p>More workers on this very machine need no token. Stop it, and start it with as many as you want:</p>
      <CopyBlock label="the command" text="npm start -- --workers 3" />
      <p>For other machines, with NATS:</p>
      <CopyBlock label="the commands with NATS" text={'nats-server &\nnpm start -- --nats-url nats://THIS-MACHINE:4222 --host 0.0.0.0'} />
    </>
  )
}

interface JoinCommand {
  readonly url: string
  readonly token: string
  /** In a clone of the repository, without a `muster` on the path. */
  readonly isClone?: boolean
}

const joinCommand = ({ url, token, isClone = false }: JoinCommand): string =>
  `${isClone ? 'npm run -s muster --' : 'muster'} worker --join ${url} --token ${token}`
