module argosy.devcluster/pause

go 1.26
