module molbox

go 1.23
