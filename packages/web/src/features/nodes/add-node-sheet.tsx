// Adds a node: the command to run on the machine, and the approval once it has joined.
import { useQuery } from '@tanstack/react-query'
import { formatDuration, joinTokenRoutes } from '@muster/protocol'
import { ApiFailure, call } from '../../api/client.ts'
import { keys, nodesQuery } from '../../api/queries.ts'
import { CopyBlock } from '../../components/copy.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Failed, Loaded } from '../../components/loaded.tsx'
import { useNow } from '../../components/time.tsx'
import { isLoopback } from '../../format.ts'
import { ApproveButton } from './node-actions.tsx'
import { NodeStatusMark } from './node-status.tsx'

/** Created when the sheet opens, dropped when it closes. `static`: invalidation does not create another token. */
const joinTokenQuery = {
  queryKey: keys.joinToken,
  queryFn: () => call(joinTokenRoutes.create),
  staleTime: 'static',
  gcTime: 0,
  retry: false,
} as const

export function AddNodeSheet({ onClose }: { readonly onClose: () => void }) {
  const token = useQuery(joinTokenQuery)
  const isLocal = token.error instanceof ApiFailure && token.error.code === 'bus_is_local'
  return (
    <Dialog title="Add node" place="sheet" onClose={onClose}>
      {isLocal ? (
        <LocalBus message={token.error?.message ?? ''} />
      ) : token.error !== null ? (
        <Failed title="Could not create a join token" error={token.error} onRetry={() => void token.refetch()} />
      ) : (
        <Loaded query={token} what="join token">
          {(created) => <Commands {...created} />}
        </Loaded>
      )}
    </Dialog>
  )
}

function Commands(token: { token: string; url: string; expires_at: string }) {
  return (
    <>
      <p>Run this command on the machine:</p>
      <CopyBlock label="command" text={joinCommand(token)} />
      <Validity until={token.expires_at} />
      {isLoopback(new URL(token.url).hostname) && (
        <p className="text-wait">
          This controller listens only on its own machine ({token.url}). To let other machines join, start it with{' '}
          <code>--host 0.0.0.0</code>, or with <code>--public-url</code> behind a proxy.
        </p>
      )}
      <details>
        <summary>Muster not installed on that machine?</summary>
        <div className="flex flex-col gap-2 pt-2">
          <p>Requires Node.js 20 or newer and npm. Clone the same Muster repository there and run this in the clone:</p>
          <CopyBlock label="command for a clone" text={joinCommand({ ...token, isClone: true })} />
        </div>
      </details>
      <NewNodes expiresAt={token.expires_at} />
    </>
  )
}

function Validity({ until }: { readonly until: string }) {
  const remainingMs = Date.parse(until) - useNow()
  return (
    <p className="text-soft">
      {remainingMs > 0
        ? `The token is shown once and valid for ${formatDuration(remainingMs)}. The node then waits for your approval.`
        : 'The token has expired. Close this dialog and open it again to get a new token.'}
    </p>
  )
}

const validMs = 3_600_000

/** Nodes that joined since the token was created. */
function NewNodes({ expiresAt }: { readonly expiresAt: string }) {
  const nodes = useQuery(nodesQuery).data ?? []
  const createdAt = Date.parse(expiresAt) - validMs
  const joined = nodes.filter(({ created_at: at }) => Date.parse(at) >= createdAt)
  return (
    <section aria-label="New nodes" aria-live="polite" className="flex min-h-16 flex-col gap-2 border-t pt-3">
      {joined.length === 0 ? (
        <p className="text-soft">No new nodes yet. They appear here automatically.</p>
      ) : (
        joined.map((node) => (
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
      <p>Other machines cannot join this controller: {message}</p>
      <p>More workers on this machine need no token. Restart Muster with the number of workers you want:</p>
      <CopyBlock label="command" text="npm start -- --workers 3" />
      <p>To let other machines join, use NATS:</p>
      <CopyBlock label="NATS commands" text={'nats-server &\nnpm start -- --nats-url nats://THIS-MACHINE:4222 --host 0.0.0.0'} />
    </>
  )
}

interface JoinCommandOptions {
  readonly url: string
  readonly token: string
  /** For a clone of the repository, without `muster` on the path. */
  readonly isClone?: boolean
}

const joinCommand = ({ url, token, isClone = false }: JoinCommandOptions): string =>
  `${isClone ? 'npm run -s muster --' : 'muster'} worker --join ${url} --token ${token}`
