// The entry of the web app: one query cache, one event stream that updates it, one router.
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { LiveProvider } from './api/live-context.tsx'
import { createQueryClient } from './api/live-cache.ts'
import { createAppRouter } from './app/router.tsx'
import { NoticesProvider } from './components/notices.tsx'
import './style.css'

const element = document.querySelector('#root')
if (element === null) throw new Error('the document has no #root element')
const queries = createQueryClient()
createRoot(element).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <LiveProvider>
        <NoticesProvider>
          <RouterProvider router={createAppRouter()} />
        </NoticesProvider>
      </LiveProvider>
    </QueryClientProvider>
  </StrictMode>,
)
