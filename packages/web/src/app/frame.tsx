// What is around every page: where one can go, what is going on, and whether what is shown is live.
import { useQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useCallback, useState } from 'react'
import { isLoggedOut } from '../api/client.ts'
import { useLiveness } from '../api/live-context.tsx'
import { statusQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { OperationDrawer } from '../features/operations/operation-drawer.tsx'
import { OperationStrip } from '../features/operations/operation-strip.tsx'
import { LoginPage } from '../pages/login-page.tsx'
import { Help } from './help.tsx'
import { useKeyboard } from './keyboard.ts'
import { LiveDot } from './live-dot.tsx'
import { Navigation } from './navigation.tsx'
import { chooseTheme, useTheme } from './theme.ts'

export function Frame() {
  const liveness = useLiveness()
  const status = useQuery(statusQuery)
  if (liveness.state === 'logged_out' || isLoggedOut(status.error)) return <LoginPage />
  return <Inside />
}

function Inside() {
  const [isHelpOpen, setHelpOpen] = useState(false)
  useKeyboard(useCallback(() => setHelpOpen(true), []))
  return (
    <div className="flex min-h-dvh flex-col lg:flex-row">
      <a href="#content" className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-raised focus:p-2">
        Skip to the content
      </a>
      <div className="border-b lg:sticky lg:top-0 lg:h-dvh lg:border-r lg:border-b-0">
        <p className="hidden px-4.5 pt-4 text-[16px] font-semibold lg:block">Muster</p>
        <Navigation />
      </div>
      <div className="flex min-w-0 flex-1 flex-col">
        <header className="sticky top-0 z-10 flex min-h-10 items-center gap-3 border-b bg-paper px-4 sm:px-6">
          <div className="min-w-0 flex-1">
            <OperationStrip />
          </div>
          <LiveDot />
          <ThemeSwitch />
          <Button look="bare" aria-label="Keyboard shortcuts" onClick={() => setHelpOpen(true)}>
            ?
          </Button>
        </header>
        <main id="content" tabIndex={-1} className="min-w-0 flex-1 outline-none">
          <Outlet />
        </main>
      </div>
      <OperationDrawer />
      {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </div>
  )
}

const nextTheme = { system: 'light', light: 'dark', dark: 'system' } as const
const themeSigns = { system: '◐', light: '☀', dark: '☾' } as const

function ThemeSwitch() {
  const theme = useTheme()
  return (
    <Button
      look="bare"
      aria-label={`Colours: ${theme}. Change to ${nextTheme[theme]}`}
      title={`Colours: ${theme}`}
      onClick={() => chooseTheme(nextTheme[theme])}
    >
      {themeSigns[theme]}
    </Button>
  )
}
