import { loginRoutes } from '@muster/protocol'
import { useMutation } from '@tanstack/react-query'
import { call, isLoggedOut } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { forgetAll } from '../../components/kept.ts'
import { useNotices } from '../../components/notices.tsx'

export function LogOutButton() {
  const tell = useNotices()
  const logout = useMutation({
    mutationFn: () => call(loginRoutes.logout),
    onSuccess: leave,
    // Whoever is out already is where he wanted to be.
    onError: (error) => (isLoggedOut(error) ? leave() : tell('bad', error.message)),
  })
  return (
    <Button onClick={() => logout.mutate()} isBusy={logout.isPending || logout.isSuccess}>
      Log out
    </Button>
  )
}

function leave(): void {
  forgetAll()
  location.reload()
}
