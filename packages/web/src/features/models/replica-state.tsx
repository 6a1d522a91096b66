import type { ReplicaState, ReplicaView } from '@muster/protocol'
import { Pill, type Tone } from '../../components/state-mark.tsx'

const tones: Readonly<Record<ReplicaState, Tone>> = { starting: 'work', ready: 'good', draining: 'wait', exited: 'idle' }

/** The state of a replica as it was told last, and that its node does not answer where that is so. */
export function ReplicaStateMark({ replica: { state, reachable } }: { readonly replica: ReplicaView }) {
  return (
    <>
      <Pill tone={tones[state]}>{state}</Pill>
      {!reachable && state !== 'exited' && (
        <span className="block">
          <Pill tone="bad" hint="its node does not answer; no request is sent to it">
            unreachable
          </Pill>
        </span>
      )}
    </>
  )
}
