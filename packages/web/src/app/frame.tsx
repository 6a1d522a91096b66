// The frame of every page: navigation, running operations, liveness, theme and help.
import { useQuery } from '@tanstack/react-query'
import { Outlet, useRouter } from '@tanstack/react-router'
import { useCallback, useEffect, useRef, useState } from 'react'
import { isLoggedOut } from '../api/client.ts'
import { useLiveness } from '../api/live-context.tsx'
import { statusQuery } from '../api/queries.ts'
import { Button } from '../components/button.tsx'
import { OperationDrawer, OperationStrip } from '../features/operations/frame-operations.tsx'
import { LoginPage } from '../pages/login-page.tsx'
import { Help, useKeyboard } from './keyboard.tsx'
import { LiveDot, StaleNotice } from './liveness.tsx'
import { Navigation } from './navigation.tsx'
import { chooseTheme, useTheme } from '../components/storage.ts'

export function Frame() {
  const liveness = useLiveness()
  const status = useQuery(statusQuery)
  if (liveness.state === 'logged_out' || isLoggedOut(status.error)) return <LoginPage />
  return <AppFrame />
}

function AppFrame() {
  const [isHelpOpen, setHelpOpen] = useState(false)
  const [isMenuOpen, setMenuOpen] = useState(false)
  const menuButton = useRef<HTMLButtonElement>(null)
  useKeyboard(useCallback(() => setHelpOpen(true), []))
  useFocusAfterNavigation()
  const closeMenu = (): void => {
    setMenuOpen(false)
    menuButton.current?.focus()
  }
  return (
    <div className="flex min-h-dvh flex-col lg:flex-row">
      <a
        href="#content"
        onClick={(event) => {
          // The address must not get a hash: it holds the state of the page.
          event.preventDefault()
          document.querySelector<HTMLElement>('#content')?.focus()
        }}
        className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-raised focus:p-2"
      >
        Skip to content
      </a>
      <Sidebar isMenuOpen={isMenuOpen} onCloseMenu={closeMenu} />
      <div className="flex min-w-0 flex-1 flex-col">
        <header className="sticky top-0 z-10 flex min-h-10 items-center gap-2 border-b bg-paper px-2 sm:gap-3 md:px-6">
          <Button ref={menuButton} look="bare" className="md:hidden" aria-expanded={isMenuOpen} onClick={() => setMenuOpen(true)}>
            <span aria-hidden>☰</span> Menu
          </Button>
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
      <StaleNotice />
      {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </div>
  )
}

/** At the side on wide screens, on top on medium ones, behind the menu button on narrow ones. */
function Sidebar({ isMenuOpen, onCloseMenu }: { readonly isMenuOpen: boolean; readonly onCloseMenu: () => void }) {
  const menu = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (isMenuOpen) menu.current?.querySelector<HTMLElement>('a')?.focus()
  }, [isMenuOpen])
  return (
    <>
      {isMenuOpen && (
        <button type="button" aria-label="Close menu" tabIndex={-1} className="fixed inset-0 z-20 md:hidden" onClick={onCloseMenu} />
      )}
      {/* oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- closes the menu after a click on a link or Escape */}
      <div
        ref={menu}
        onKeyDown={(event) => event.key === 'Escape' && isMenuOpen && onCloseMenu()}
        onClick={(event) => isMenuOpen && event.target instanceof Element && event.target.closest('a') !== null && onCloseMenu()}
        className={`border-b max-md:fixed max-md:inset-x-0 max-md:top-0 max-md:z-30 max-md:bg-raised max-md:shadow-lg lg:sticky lg:top-0 lg:h-dvh lg:border-r lg:border-b-0 ${isMenuOpen ? '' : 'max-md:hidden'}`}
      >
        <p className="hidden px-4.5 pt-4 text-[16px] font-semibold lg:block">Muster</p>
        <Navigation />
      </div>
    </>
  )
}

/** Moves the focus to the new page when the focused element is gone. */
function useFocusAfterNavigation(): void {
  const router = useRouter()
  useEffect(
    () =>
      router.subscribe('onRendered', ({ fromLocation, pathChanged }) => {
        if (fromLocation !== undefined && pathChanged && document.activeElement === document.body)
          document.querySelector<HTMLElement>('#content')?.focus({ preventScroll: true })
      }),
    [router],
  )
}

const nextTheme = { system: 'light', light: 'dark', dark: 'system' } as const
const themeIcons = { system: '◐', light: '☀', dark: '☾' } as const

function ThemeSwitch() {
  const theme = useTheme()
  return (
    <Button
      look="bare"
      aria-label={`Theme: ${theme}. Switch to ${nextTheme[theme]}`}
      title={`Theme: ${theme}`}
      onClick={() => chooseTheme(nextTheme[theme])}
    >
      {themeIcons[theme]}
    </Button>
  )
}
