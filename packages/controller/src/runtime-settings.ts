// Settings that administrators change while controllers run. Pinned by this process > stored in the database > default. All parts
// of a controller read them at each use from one object, `settings`; a controller that cannot read the database keeps the last
// values.
import {
  type Clock,
  closestWord,
  createLoop,
  errorMessage,
  type ExplainedSetting,
  type Log,
  resolveSettings,
  type Setting,
  settingText,
} from '@muster/host'
import type { SettingView } from '@muster/protocol'
import type { ChangeFeed } from './events/feed.ts'
import {
  applyChanges,
  type ChangeDecision,
  decideChanges,
  type SettingPin,
  type SettingRequest,
  type StoredSettings,
} from './runtime-settings.pure.ts'
import { checkSettings, controllerSettings, type ControllerSettings, runtimeSettings } from './settings.ts'

/** The change key of the stored settings (migration 0003). */
const runtimeSettingsKey = { kind: 'settings', id: 'runtime' } as const

type RuntimeName = keyof typeof runtimeSettings
const isRuntimeName = (name: string): name is RuntimeName => Object.hasOwn(runtimeSettings, name)
const runtimeNames: readonly RuntimeName[] = Object.keys(runtimeSettings).filter(isRuntimeName)
const flags = Object.values(controllerSettings).map(({ flag }) => flag)

export interface RuntimeSettingsDeps {
  /** Resolved at the start. */
  readonly given: ControllerSettings
  /** With the origin of each; empty: nothing is pinned. */
  readonly explained: readonly ExplainedSetting[]
  readonly log: Log
}
export type RuntimeSettings = ReturnType<typeof createRuntimeSettings>

export function createRuntimeSettings({ given, explained, log }: RuntimeSettingsDeps) {
  const pinned = new Map(explained.flatMap(({ flag, from }) => (from === 'default' ? [] : [[flag, from] as const])))
  const listeners = new Set<(changed: ReadonlySet<string>) => void>()
  /** Logged once each. */
  const unreadable = new Set<string>()
  let stored: StoredSettings = new Map()
  let values = overlay(stored)

  function overlay(texts: StoredSettings): Pick<ControllerSettings, RuntimeName> {
    const inEffect = [...texts].filter(([flag, text]) => !pinned.has(flag) && isReadable(flag, text))
    const parsed = resolveSettings(runtimeSettings, { flags: Object.fromEntries(inEffect), env: {} })
    const names = new Set(inEffect.map(([flag]) => flag))
    const isGiven = (name: RuntimeName): boolean => !names.has(runtimeSettings[name].flag)
    return Object.defineProperties(
      { ...parsed },
      Object.fromEntries(runtimeNames.filter(isGiven).map((name) => [name, { value: given[name], enumerable: true }])),
    )
  }

  const settings: ControllerSettings = Object.defineProperties(
    { ...given },
    Object.fromEntries(runtimeNames.map((name) => [name, { get: () => values[name], enumerable: true }])),
  )

  return {
    settings,
    pinned: Object.fromEntries([...pinned].filter(([flag]) => runtime.has(flag))),

    /** Takes over the stored texts. Texts that this version cannot read, and settings that it does not know, have no effect. */
    set(texts: StoredSettings): void {
      const readable = new Map([...texts].filter(([flag, text]) => isReadable(flag, text)))
      for (const flag of [...texts.keys()].filter((each) => !readable.has(each) && !unreadable.has(each))) {
        unreadable.add(flag)
        log.warn('stored setting is not known to this version, and has no effect', { setting: flag })
      }
      const all = new Set([...readable.keys(), ...stored.keys()])
      const changed = new Set([...all].filter((flag) => readable.get(flag) !== stored.get(flag)))
      stored = readable
      values = overlay(readable)
      if (changed.size === 0) return
      log.info('settings changed', { settings: [...changed].toSorted() })
      for (const listener of listeners) listener(changed)
    },
    onChanged: (listener: (changed: ReadonlySet<string>) => void): void => void listeners.add(listener),

    /** Checks a request against the stored settings and the pins of all live controllers. */
    decide(requests: readonly SettingRequest[], { texts, pins }: { texts: StoredSettings; pins: readonly SettingPin[] }): ChangeDecision {
      const decision = decideChanges({ requests, stored: texts, pins, runtime, flags, closestWord })
      if (decision.outcome !== 'ok') return decision
      try {
        checkSettings({ ...given, ...overlay(applyChanges(texts, decision.changes)) })
        return decision
      } catch (error) {
        return { outcome: 'invalid', message: errorMessage(error) }
      }
    },

    /** `pins` of live controllers. */
    explain: (pins: readonly SettingPin[]): SettingView[] =>
      explained.map((setting) => viewSetting(setting, { pins, text: pinned.has(setting.flag) ? undefined : stored.get(setting.flag) })),
  }
}

/** `text`: the stored text, if it is in effect. */
function viewSetting(
  { isSecret, ...shown }: ExplainedSetting,
  { pins, text }: { pins: readonly SettingPin[]; text: string | undefined },
): SettingView {
  const pin = pins.find(({ flag }) => flag === shown.flag)
  return {
    ...shown,
    ...(text === undefined ? {} : { value: text, from: 'an administrator' }),
    is_secret: isSecret,
    is_runtime: runtime.has(shown.flag),
    pinned_by: pin === undefined ? null : `${pin.from} of ${pin.controller}`,
  }
}

type ParseText = (text: string) => Readonly<{ problem: string } | { text: string }>

const parseText =
  (setting: Setting<unknown>): ParseText =>
  (text) => {
    try {
      return { text: settingText(setting.kind, setting.parse([text])) }
    } catch (error) {
      return { problem: errorMessage(error) }
    }
  }

const runtime: ReadonlyMap<string, ParseText> = new Map(Object.values(runtimeSettings).map((setting) => [setting.flag, parseText(setting)]))

function isReadable(flag: string, text: string): boolean {
  const parsed = runtime.get(flag)?.(text)
  return parsed !== undefined && 'text' in parsed
}

const pollMs = 30_000

interface SettingsLoopDeps {
  readonly runtime: Pick<RuntimeSettings, 'set'>
  readonly read: () => Promise<StoredSettings>
  readonly feed: Pick<ChangeFeed, 'listen'>
  readonly clock: Clock
  readonly log: Log
}

/** Reads the stored settings after each change, and now and then. */
export function createSettingsLoop({ runtime: { set }, read, feed, clock, log }: SettingsLoopDeps) {
  const loop = createLoop({ what: 'cannot read the settings; keeping the last values', clock, log, retryMs: 1_000 })
  feed.listen(({ changes }) => {
    if (changes.some(({ kind, id }) => kind === runtimeSettingsKey.kind && id === runtimeSettingsKey.id)) loop.wake()
  })
  return {
    /** Runs until aborted. */
    run: (signal: AbortSignal): Promise<void> =>
      loop.run(async () => {
        set(await read())
        return pollMs
      }, signal),
  }
}
